"""Tokens and time that a search takes until it answers, and what stopping early saves."""
