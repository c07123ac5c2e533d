"""How well two depths generalise at equal loss (Petty et al. 2024)."""
