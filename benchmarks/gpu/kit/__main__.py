"""Gathers what a machine with PyTorch and no network lacks for a search, in parts that travel.

python -m benchmarks.gpu.kit                          build/kit/parts, for Python 3.12 on x86-64
python3 build/kit/parts/unpack.py /tmp/site           there, with the parts
unset PYTHONDONTWRITEBYTECODE; export PYTHONPATH=/tmp/site
python3 -m benchmarks.gpu --quarter --out gpu.json    there, until it says that nothing is left

The versions are those of constraints.txt. The same wheels make the same bytes. What makes packages
large and a search does not use is left out.
"""

import argparse
import json
import lzma
import math
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import IO

from benchmarks.gpu.kit import unpack
from benchmarks.gpu.kit.packages import CARRIED, pins
from benchmarks.gpu.kit.unpack import LIST, digest

KIT = Path("build/kit")
PLATFORM = "linux-x86_64"
MANYLINUX = ("2_28", "2_27", "2_24", "2_17", "2_12", "2_5")
"""Versions of glibc with which wheels run on every machine that can run PyTorch's."""
LEFT_OUT = (
    *("ray/jars/", "ray/cpp/", "ray/rllib/", "ray/llm/", "ray/serve/", "ray/dashboard/client/"),
    "ray/core/libjemalloc.so",
)
"""Starts of the names of files that a search does not use: Java, C++, libraries, web pages."""
PART_BYTES = 55_000_000
"""Largest size of a part: with a checkout it travels in 64 MiB."""
PRESET = 1
"""Level of compression; the highest takes ten times as long, and a tenth off."""


def main() -> None:
    """Makes the parts and prints their sizes; exit status 2 where a package can't be had."""
    args = arguments()
    parts: Path = args.to
    if parts.exists() and not (parts / LIST).is_file():
        refuse(f"--to must be a folder of parts or not there yet, got {parts}; name another one")
    wheels = downloaded(args.python, args.wheels)
    made(wheels, parts, python=args.python)
    files = sorted(parts.glob("kit.*"))
    for file in files:
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {digest(file)}  {file.name}")
    total = sum(file.stat().st_size for file in files)
    print(f"{total / 1e6:8.1f} MB in {len(files)} parts of {len(wheels)} packages: {parts}")
    print(f"there: python{args.python} {parts / 'unpack.py'} FOLDER; export PYTHONPATH=FOLDER")


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.kit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", default="3.12", help="version of Python on that machine")
    parser.add_argument("--to", type=Path, default=Path("build/kit/parts"), help="folder of parts")
    parser.add_argument(
        "--wheels", type=Path, default=Path("build/kit/wheels"), help="wheels, kept"
    )
    return parser.parse_args()


def refuse(why: str) -> None:
    """Ends with status 2 and a line."""
    print(f"benchmarks.gpu.kit: {why}", file=sys.stderr)
    sys.exit(2)


def downloaded(python: str, folder: Path) -> list[Path]:
    """Returns a wheel of each package of the kit; those that are in the folder are not fetched."""
    versions = pins()
    folder = folder / python
    asked = [f"{name}=={versions[name]}" for name in CARRIED]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", f"--python-version={python}"]
    command += [f"--platform=manylinux_{glibc}_x86_64" for glibc in MANYLINUX]
    command += ["--platform=manylinux2014_x86_64", f"--dest={folder}", f"--find-links={folder}"]
    done = subprocess.run([*command, *asked], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        refuse(" ".join(lines[-1:]) or "pip can't download; try python -m pip --version")
    names = {f"{name.replace('-', '_')}-{versions[name]}".lower() for name in CARRIED}
    wheels = [w for w in folder.glob("*.whl") if "-".join(w.name.lower().split("-")[:2]) in names]
    assert len(wheels) == len(CARRIED), "pip has saved a wheel of each"
    return sorted(wheels)


def made(wheels: Sequence[Path], parts: Path, *, python: str) -> None:
    """Writes the parts, their list and the script that unpacks them."""
    unfinished = parts.with_name(f"{parts.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    whole = unfinished / "whole.tar.xz"
    with lzma.open(whole, "wb", preset=PRESET) as compressed:
        archive(wheels, compressed)
    split(whole)
    listed = [
        {"name": file.name, "bytes": file.stat().st_size, "sha256": digest(file)}
        for file in sorted(unfinished.glob("kit.*"))
    ]
    packages = dict(wheel.name.split("-")[:2] for wheel in wheels)
    told = {"python": python, "platform": PLATFORM, "packages": packages, "parts": listed}
    (unfinished / LIST).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(unpack.__file__, unfinished / "unpack.py")
    shutil.rmtree(parts, ignore_errors=True)
    unfinished.replace(parts)


def archive(wheels: Sequence[Path], to: IO[bytes]) -> None:
    """Writes the files of wheels into an archive, sorted, with one time and one owner."""
    with tarfile.open(fileobj=to, mode="w|") as tar:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as content:
                for member in sorted(content.namelist()):
                    if not member.endswith("/") and not member.startswith(LEFT_OUT):
                        info = tarfile.TarInfo(member)
                        info.size = content.getinfo(member).file_size
                        runs = content.getinfo(member).external_attr >> 16 & 0o100
                        info.mode = 0o755 if runs else 0o644
                        tar.addfile(info, BytesIO(content.read(member)))


def split(file: Path) -> None:
    """Cuts a file into parts `kit.01`, `kit.02`, ... beside it, and removes it."""
    with file.open("rb") as whole:
        for number in range(1, 1 + math.ceil(file.stat().st_size / PART_BYTES)):
            file.with_name(f"kit.{number:02}").write_bytes(whole.read(PART_BYTES))
    file.unlink()


if __name__ == "__main__":
    main()
