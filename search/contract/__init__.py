"""The JSON that programs read: one form for every command, with a published schema."""
