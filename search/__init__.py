"""The pipeline: a study file goes in, the optimal depth of every budget comes out."""
