"""Tables of a search over settings: the best depth by a model of the loss over all settings."""
