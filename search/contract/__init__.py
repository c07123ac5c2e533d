"""The output of `--json`: one form for every command, with a published schema."""
