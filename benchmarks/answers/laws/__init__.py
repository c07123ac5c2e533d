"""How well laws predict the best depth of sizes and amounts that were not trained."""
