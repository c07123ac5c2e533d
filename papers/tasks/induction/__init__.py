"""Repeated blocks of random tokens (Olsson et al. 2022)."""
