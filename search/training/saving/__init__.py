"""Files that a trial leaves: checkpoints, its log, the best weights."""
