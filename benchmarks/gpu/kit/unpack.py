"""Puts the parts of a kit together, after checking their digests: `python3 unpack.py FOLDER`.

It lies beside the parts, and needs the standard library alone.
"""

import argparse
import hashlib
import io
import json
import shutil
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

LIST = "parts.json"
"""Name of the list of a kit's parts, and of the file in the folder that is made of them."""


class KitError(Exception):
    """Parts that can't be put together; the message says why, and what to do."""


def unpack(parts: Path, folder: Path) -> str:
    """Makes the folder of packages, and returns a line on it.

    Raises:
        KitError: when a part is missing or damaged, Python is another, or the folder is not empty.
    """
    listed = _listed(parts)
    if _same(folder / LIST, parts / LIST):
        return f"{folder} is there already"
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise KitError(f"{folder} must be empty or not there yet; name another folder")
    here = "{}.{}".format(*sys.version_info)
    if (here, sysconfig.get_platform()) != (listed["python"], listed["platform"]):
        raise KitError(
            f"the kit is for Python {listed['python']} on {listed['platform']}, and this is {here} "
            f"on {sysconfig.get_platform()}: run it by python{listed['python']}, or make a kit for "
            f"this one: python -m benchmarks.gpu.kit --python {here}"
        )
    for part in listed["parts"]:
        _check(parts / part["name"], part)
    unfinished = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _extract([parts / part["name"] for part in listed["parts"]], unfinished)
        shutil.copy(parts / LIST, unfinished)
        unfinished.replace(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise KitError(f"{folder} can't be written: {error.strerror}; name another one") from None
    return f"{folder} has {len(listed['packages'])} packages"


def _listed(parts: Path) -> dict[str, Any]:
    try:
        listed: dict[str, Any] = json.loads((parts / LIST).read_text(encoding="utf-8"))
    except OSError:
        raise KitError(
            f"{parts} has no {LIST}; make the kit first: python -m benchmarks.gpu.kit"
        ) from None
    except ValueError:
        raise KitError(f"{parts / LIST} is damaged; carry the folder again") from None
    return listed


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and one.read_bytes() == other.read_bytes()


def _check(file: Path, part: dict[str, Any]) -> None:
    if not file.is_file():
        raise KitError(f"{file} is missing; carry it into the folder of the other parts")
    if digest(file) != part["sha256"]:
        raise KitError(f"{file} is damaged: its SHA-256 is not that of {LIST}; carry it again")


def digest(file: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


class _Joined(io.RawIOBase):
    """The content of several files, one after another."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._blocks = _blocks(files)
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Returns at most so many bytes, and none at the end."""
        self._left = self._left or next(self._blocks, b"")
        given, self._left = self._left[:size], self._left[size:]
        return given


def _blocks(files: Sequence[Path]) -> Iterator[bytes]:
    for file in files:
        with file.open("rb") as content:
            while block := content.read(2**20):
                yield block


def _extract(files: Sequence[Path], folder: Path) -> None:
    with tarfile.open(fileobj=_Joined(files), mode="r|xz") as archive:
        archive.extractall(folder, filter="tar")


def main() -> None:
    """Unpacks the parts beside this file, or those of a folder; exit status 2 where they can't."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the packages go, for PYTHONPATH")
    parser.add_argument("--parts", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    try:
        print(unpack(args.parts, args.folder))
    except KitError as error:
        print(f"unpack.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
