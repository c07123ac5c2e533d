"""Time and memory of inference: measured, interpolated, or estimated from a data sheet."""
