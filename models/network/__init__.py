"""The transformer and its parts, as it is trained and as it decodes."""
