"""Ray: trials on the workers of one machine or of a cluster."""
