"""The token id that has one meaning in every objective."""

PAD = 0
"""Id of padding, which a bidirectional model does not attend to."""
