"""Parts of a report that are shown while a search runs."""
