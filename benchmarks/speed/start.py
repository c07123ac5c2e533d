"""Measures the time in which a command answers, as a whole process with Python's own start, and the
time from `fathom run` to the first step of training, beside Ray's own start.

python -m benchmarks.speed.start
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.search.json_lines import read_lines
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.study_file import load

COMMANDS = (
    ("--help",),
    ("plan", "configs/quickstart.yaml"),
    ("predict", "--params", "1B"),
    ("export", "runs/quickstart", "--params", "40k"),
)
STUDY = Path("configs/quickstart.yaml")
BARE = "import ray; ray.init(address='local', include_dashboard=False, log_to_driver=False)"
LONGEST_SECONDS = 120.0


def main() -> None:
    """Prints the median wall time of each command, and of Python doing nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="of each verb")
    parser.add_argument("--searches", type=int, default=5, help="started and interrupted")
    add_json_option(parser)
    arguments = parser.parse_args()
    table = PrintedTable({"command": "", "seconds (fastest, slowest)": ""}, arguments.json)
    table.add(*row_of("python -c pass", [sys.executable, "-P", "-c", "pass"], arguments.runs))
    for command in COMMANDS:
        program = [sys.executable, "-P", "-m", "fathom", *command]
        if "runs/quickstart" not in command or Path("runs/quickstart").exists():
            table.add(*row_of(f"fathom {' '.join(command)}", program, arguments.runs))
    pairs = [
        (_time([sys.executable, "-P", "-c", BARE]), *_first_steps())
        for _ in range(arguments.searches)
    ]
    for name, seconds in zip(
        (
            "`import ray; ray.init()`, to its end",
            "`fathom run`, to the first step of training",
            "the same where MLflow's store exists",
        ),
        zip(*pairs, strict=True),
        strict=True,
    ):
        table.add(*_row(name, seconds))


def row_of(name: str, command: list[str], runs: int) -> tuple[str, str]:
    """Returns the cells of a row; the first run, which fills the disk cache, does not count."""
    return _row(f"`{name}`", [_time(command) for _ in range(runs + 1)][1:])


def _row(name: str, seconds: "list[float] | tuple[float, ...]") -> tuple[str, str]:
    return name, f"{statistics.median(seconds):.2f} ({min(seconds):.2f}, {max(seconds):.2f})"


def _time(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _first_steps() -> tuple[float, float]:
    """Seconds to the first step of two searches; for the second, MLflow's store exists."""
    with tempfile.TemporaryDirectory() as path:
        first = _first_step(Path(path) / "first", f"sqlite:///{path}/mlflow.db")
        return first, _first_step(Path(path) / "second", f"sqlite:///{path}/mlflow.db")


def _first_step(runs: Path, uri: str) -> float:
    """Seconds from the command to the first trial's first step."""
    folder = RunFolder(runs / load(STUDY).study)
    began = time.time()
    search = subprocess.Popen(
        [sys.executable, "-P", "-m", "fathom", "run", str(STUDY), "--runs", str(runs)],
        env=os.environ | {"MLFLOW_TRACKING_URI": uri},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return _first_training(folder, search) - began
    finally:
        search.send_signal(signal.SIGINT)
        search.wait()


def _first_training(folder: RunFolder, search: "subprocess.Popen[bytes]") -> float:
    """Returns the time at which training began, by the first report of a trial, Unix seconds.

    The report has the time of its first evaluation's end and the duration of the steps before, so
    the duration of that evaluation counts as time before training.
    """
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline and search.poll() is None:
        for line in read_lines(folder.journal):
            if line["event"] == "report" and line["points"]:
                point = line["points"][0]
                return float(point["time"] - point["train_seconds"])
        time.sleep(0.2)
    raise SystemExit(f"no trial reported within {LONGEST_SECONDS:g} s (exit {search.poll()})")


if __name__ == "__main__":
    main()
