"""Sizes at which a deeper model begins to win, and the law through them (Levine et al. 2020)."""
