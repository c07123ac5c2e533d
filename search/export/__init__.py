"""From the best shapes to training: as YAML, and as other frameworks take them."""
