"""Commands behind the figures of the README, the docs and the results page.

`python -m benchmarks.FOLDER.NAME` runs one.
"""
