"""Measurements of a model for a check: sizes of activations, statistics of layers."""
