"""Published studies of depth, beside ours."""
