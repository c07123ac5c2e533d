"""`fathom doctor`: whether a search would work here, looked at before any of it is spent."""
