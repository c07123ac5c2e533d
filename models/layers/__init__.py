"""Kinds of layers other than the dense one: their options and sizes. Standard library only."""
