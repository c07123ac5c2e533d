"""What the pages need beyond Sphinx and its own extensions."""
