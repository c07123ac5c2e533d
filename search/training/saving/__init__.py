"""What a trial leaves on disk: checkpoints, its log, the best weights."""
