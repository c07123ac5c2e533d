"""Whether two vertices of a graph are connected."""
