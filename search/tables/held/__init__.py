"""Models of any size, compared at an equal amount of compute, time or tokens."""
