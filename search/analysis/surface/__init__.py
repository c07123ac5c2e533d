"""The loss over size and depth, of models that all spend an equal amount."""
