"""Everything that only a GPU can settle, in stages: `python -m benchmarks.gpu`."""
