"""Where a deeper model begins to win, and the law through it (Levine et al. 2020)."""
