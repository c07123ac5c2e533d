"""Auto-sizing: layers that shrink while they train, and what is left of them."""
