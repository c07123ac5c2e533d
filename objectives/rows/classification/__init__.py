"""A class for each text."""
