"""How long a verb takes to answer, as a whole process, Python's own start included.

python -m benchmarks.start
"""

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = (
    ("--help",),
    ("plan", "configs/quickstart.yaml"),
    ("predict", "--params", "1B"),
    ("export", "runs/quickstart", "--budget", "40k"),
)


def main() -> None:
    """Print the median wall time of each command, and of Python doing nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    print("| command | seconds (median) | fastest | slowest |")
    print("|---|---|---|---|")
    print(row_of("python -c pass", [sys.executable, "-c", "pass"], runs))
    for command in COMMANDS:
        words = [sys.executable, "-m", "search", *command]
        print(row_of(f"fathom {' '.join(command)}", words, runs))


def row_of(name: str, command: list[str], runs: int) -> str:
    """One line of the table; the first run, which fills the disk cache, does not count."""
    seconds = [_time(command) for _ in range(runs + 1)][1:]
    return (
        f"| `{name}` | {statistics.median(seconds):.2f} | {min(seconds):.2f} | {max(seconds):.2f} |"
    )


def _time(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
