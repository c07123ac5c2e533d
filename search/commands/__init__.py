"""The commands that a person types; each is a function of the same name.

Each imports what it needs when it runs: `--help`, `plan`, `predict` and `export` must answer at
once, and torch, ray and mlflow take seconds to import.
"""
