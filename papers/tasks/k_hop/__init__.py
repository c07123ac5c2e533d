"""k-hop induction heads (Sanford, Hsu, Telgarsky 2024)."""
