"""A search on three hosts of one machine, while things fail; see `__main__.py`."""
