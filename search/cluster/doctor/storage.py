"""Writes a file beside a run's checkpoints and checks that every node can read it and answer."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fathom.search.cluster.doctor.facts import ClusterProbe


@contextmanager
def planted(folder: Path) -> Iterator[ClusterProbe]:
    """Context with a probe file for nodes to read, removed afterwards with folders made for it."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    name = f".doctor-{secrets.token_hex(8)}"
    try:
        yield _plant(folder, name)
    finally:
        for path in folder.glob(f"{name}*"):
            path.unlink(missing_ok=True)
        for path in made:
            with suppress(OSError):  # never made, or a search has begun in it
                path.rmdir()


def _plant(folder: Path, name: str) -> ClusterProbe:
    probe = ClusterProbe(str(folder), name, secrets.token_hex(8))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("w", encoding="utf-8") as file:
            file.write(probe.content)
            file.flush()
            os.fsync(file.fileno())  # a full disk may say so only now
    except OSError as error:
        return replace(probe, trouble=error.strerror or type(error).__name__)
    return probe


def answer(probe: ClusterProbe, node: str) -> str:
    """Reads the probe file on a node and writes a copy beside it; returns the error, empty if
    none."""
    try:
        content = Path(probe.folder, probe.name).read_text(encoding="utf-8")
        if content != probe.content:
            return "reads other content than was written"
        _answer_path(probe, node).write_text(content, encoding="utf-8")
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return "does not see it" if missing else f"{error.strerror or type(error).__name__}"
    return ""


def is_answered(probe: ClusterProbe, node: str) -> bool:
    """True if this process sees the answer of a node, or if the probe asks for none."""
    try:
        return bool(probe.trouble) or _answer_path(probe, node).read_text() == probe.content
    except OSError:
        return False


def _answer_path(probe: ClusterProbe, node: str) -> Path:
    return Path(probe.folder, f"{probe.name}.{node}")
