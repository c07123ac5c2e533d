"""What a person types, a function a verb.

Each imports what it needs when it runs: `--help`, `plan`, `predict` and `export` must answer at
once, and torch, ray and mlflow take seconds to import.
"""
