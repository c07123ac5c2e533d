"""Files that a user names, or that are fetched, read and replaced safely."""
