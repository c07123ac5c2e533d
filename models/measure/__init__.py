"""What a check reads off a model: sizes of activations, statistics of layers."""
