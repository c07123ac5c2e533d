"""A disk that remembers what was synced, to see what a power cut would leave."""

import os
from pathlib import Path

import pytest


class WatchedDisk:
    """Watches syncs and renames: `unsafe` names the renames of content that was not synced, and
    `unsynced` the folders whose new names were not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.unsafe: list[str] = []
        self.unsynced: set[str] = set()
        self.renamed: list[str] = []
        self._synced: dict[int, bytes] = {}
        self._sync, self._replace = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", self.sync)
        monkeypatch.setattr(os, "replace", self.replace)
        for name in ("rename", "renames"):
            monkeypatch.setattr(os, name, self._refuse)

    def sync(self, descriptor: int) -> None:
        """Notes the content of a file, or that the names of a folder are on the disk."""
        self._sync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self.unsynced.discard(str(path))
        else:
            self._synced[path.stat().st_ino] = path.read_bytes()

    def replace(self, source: str | Path, target: str | Path) -> None:
        """Notes a rename of what a power cut could still take."""
        there = Path(source)
        files = [path for path in there.rglob("*") if path.is_file()] if there.is_dir() else [there]
        for path in files:
            if self._synced.get(path.stat().st_ino) != path.read_bytes():
                self.unsafe.append(path.name)
        self._replace(source, target)
        self.renamed.append(Path(target).name)
        self.unsynced.add(str(Path(target).resolve().parent))

    def _refuse(self, *_: object) -> None:
        raise AssertionError("os.replace, by `put_in_place`, is the one way to rename")
