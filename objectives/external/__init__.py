"""`external`: the data of a training command of the user's own, which Fathom never reads."""
