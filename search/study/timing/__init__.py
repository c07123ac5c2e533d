"""Time: seconds of a training step, measured or estimated, and the time that a search has left."""
