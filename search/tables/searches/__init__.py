"""Tables left by a search of settings: the best depth by a model of the loss over all settings."""
