"""Layers that shrink while they train, and the weights that remain."""
