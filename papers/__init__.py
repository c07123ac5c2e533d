"""Code for studies of published papers alone, on the public contract of objectives."""
