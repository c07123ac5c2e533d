"""Language modelling: next-token loss on text."""
