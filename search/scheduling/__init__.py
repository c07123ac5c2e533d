"""Decides which trial comes next, which pause, and which are promoted, repeated or resumed."""
