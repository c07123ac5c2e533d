"""Rehearses a quarter of an hour on a GPU without one: the parts of the kit, no network, a search.

python -m benchmarks.gpu.kit.rehearsal --python ENVIRONMENT/bin/python
python -m benchmarks.gpu.kit.rehearsal --make build/kit/machine    makes that environment first

The environment has what the machine has, without what the kit brings. In a network namespace
without an interface the parts are unpacked and the stage `search` runs: the study configs/tiny.yaml
to its answer, and again, killed and resumed. Each step is timed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.gpu.kit.packages import ROOT, THERE

TORCH = "torch==2.11.0"
"""PyTorch of the machine that was seen last."""
UNCONNECTED = ("unshare", "--net", "--map-root-user", "sh", "-c")
"""Runs a command where nothing but this machine can be reached."""
LOOPBACK = 'ip link set lo up && exec "$@"'
STAGE = ("-m", "benchmarks.gpu", "--stage", "search", "--device", "cpu", "--tiny")


def main() -> None:
    """Runs the steps and prints the time of each; exit status 1 if one fails."""
    args = arguments()
    for tool, package in (("unshare", "util-linux"), ("ip", "iproute2")):
        if not shutil.which(tool):
            refuse(f"{tool} is not installed: `apt-get install {package}`")
    python: Path = args.python or args.make / "bin" / "python"
    times: dict[str, float] = {}
    if args.make and not python.exists():
        with timed("the environment", times):
            made(args.make, args.base)
    if not python.is_file():
        refuse(f"--python must be a Python with PyTorch, got {python}; --make FOLDER makes one")
    with tempfile.TemporaryDirectory() as place:
        site = Path(place) / "site"
        with timed("unpacking", times):
            run([python, args.parts / "unpack.py", site], place)
        with timed("importing PyTorch and Ray", times):
            run([python, "-c", "import torch, ray; print(torch.__version__)"], place, site)
        with timed("a search, and one killed and resumed", times):
            run([python, *STAGE, "--out", "gpu.json", "--minutes", "60"], place, site)
    print("", *(f"{seconds:7.1f} s  {step}" for step, seconds in times.items()), sep="\n")


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.kit.rehearsal",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--python", type=Path, help="Python of an environment like the machine's")
    where.add_argument("--make", type=Path, help="folder in which to make that environment")
    parser.add_argument("--base", default="python3.12", help="Python that --make is made by")
    parser.add_argument("--parts", type=Path, default=Path("build/kit/parts"))
    return parser.parse_args()


def refuse(why: str) -> None:
    """Ends with status 2 and a line."""
    print(f"benchmarks.gpu.kit.rehearsal: {why}", file=sys.stderr)
    sys.exit(2)


@contextmanager
def timed(step: str, times: dict[str, float]) -> Iterator[None]:
    """Prints and keeps the seconds of a step."""
    print(f"== {step}", flush=True)
    began = time.monotonic()
    yield
    times[step] = time.monotonic() - began
    print(f"== {step}: {times[step]:.1f} s", flush=True)


def made(folder: Path, base: str) -> None:
    """Makes an environment with the packages of the machine, several GB of them from the index."""
    if not shutil.which(base):
        refuse(f"--base must be a Python on the path, got {base}; name yours with --base")
    subprocess.run([base, "-m", "venv", folder], check=True)
    install = ["install", "--quiet", "--disable-pip-version-check", TORCH]
    packages = [name for name in THERE if name != "torch"]
    subprocess.run([folder / "bin" / "pip", *install, *packages], check=True)


def run(command: Sequence[str | Path], place: str, site: Path | None = None) -> None:
    """Runs a command without a network in a folder; ends with status 1 if it fails."""
    paths = [str(ROOT), *([str(site)] if site else [])]
    inside = [*UNCONNECTED, LOOPBACK, "sh", *(_absolute(part) for part in command)]
    done = subprocess.run(inside, cwd=place, env=_environment(paths), check=False)
    if done.returncode:
        print(f"it failed with status {done.returncode}", file=sys.stderr)
        sys.exit(1)


def _absolute(part: str | Path) -> str:
    # Not resolved: the Python of an environment is a link.
    return os.path.abspath(part) if isinstance(part, Path) else part


def _environment(paths: Sequence[str]) -> Mapping[str, str]:
    """The environment of commands there: modules are compiled once, and not at every import."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


if __name__ == "__main__":
    main()
