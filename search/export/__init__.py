"""The best shapes as YAML, and as files for other training frameworks."""
