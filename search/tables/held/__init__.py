"""Compares models of any size at an equal amount of compute, time or tokens."""
