"""Laws of the best depth and of the loss over size, tokens and compute."""
