"""The depth that a task of some difficulty requires (Sanford et al. 2024; Yang et al. 2025)."""
