"""Checks of `fathom doctor`: what on this machine or cluster would make a search fail."""
