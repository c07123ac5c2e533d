"""Commands behind the figures of the README: `python -m benchmarks.FOLDER.NAME` runs one."""
