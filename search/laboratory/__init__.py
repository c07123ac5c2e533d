"""Questions about a study that are measured apart from its search: check, ask, latency."""
