"""Languages of alternating blocks (Yang, Cadilhac, Chiang 2025)."""
