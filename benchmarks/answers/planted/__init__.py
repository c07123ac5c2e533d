"""How often answers are right where the best depth is planted, and so known."""
