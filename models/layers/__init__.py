"""Kinds of layers beside the dense one: their options and sizes. Standard library only."""
