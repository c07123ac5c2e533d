"""Other search packages that a user could choose, each behind one small interface."""
