"""What a report shows while a search runs."""
