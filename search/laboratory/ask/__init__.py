"""`fathom ask`: the best depth of a model that is too large to be searched."""
