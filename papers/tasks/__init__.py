"""Tasks whose data a rule generates, from papers on what depth is needed for."""
