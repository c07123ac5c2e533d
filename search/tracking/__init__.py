"""MLflow's only home: a study mirrored as runs, in the background."""
