"""A whole search on a machine with PyTorch and no network: `python -m benchmarks.gpu.kit`."""
