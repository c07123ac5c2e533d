"""Parallel text: an encoder reads the source, a decoder writes the target."""
