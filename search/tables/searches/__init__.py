"""Tables that a search of settings left: the best depth by a model of the loss over all of them."""
