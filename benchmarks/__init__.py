"""Where the README's figures come from: each module is a command, `python -m benchmarks.NAME`."""
