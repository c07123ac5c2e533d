"""The objective on running text, with what reads and encodes text."""
