"""Code for studies of published papers alone; the core loads it by its name in a table."""
