"""Analysis of a table of learning curves or final losses that somebody already has."""
