"""Language modelling: next-token prediction on text."""
