"""Tables of learning curves or final losses that somebody already has, for the statistics of a
search."""
