"""One question, one command: how deep a model should be that is too large to search."""
