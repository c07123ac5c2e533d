"""The keys of a study file, their defaults and their rules."""
