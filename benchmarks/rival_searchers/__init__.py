"""What else a user could search with, each behind one small interface."""
