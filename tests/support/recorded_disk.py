"""A folder whose changes are recorded where Python calls the system, to see what a kill or a power
cut after each of them would leave."""

import _pyio  # type: ignore[import-not-found]
import builtins
import io
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest


class Left(StrEnum):
    """What is left of the changes that were made."""

    ALL = "all"
    """After a kill: everything, as the system writes what it has taken."""
    NAMES = "names"
    """After a power cut: all names, but of each file only what was synced."""
    SYNCED = "synced"
    """After a power cut: neither content nor names that were not synced."""
    SOME = "some"
    """After a power cut: some names and contents that were not synced, with zeros in others."""


@dataclass(slots=True)
class _Inode:
    """A file, a link or a folder: what it holds, and what it held when it was last synced."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    target: str = ""
    """What a link points to."""
    is_folder: bool = False
    names: dict[str, int] = field(default_factory=dict)
    """Of a folder: name -> number of an inode."""
    synced_names: dict[str, int] = field(default_factory=dict)


Inodes = list[_Inode]
Change = Callable[[Inodes], object]


@dataclass(frozen=True, slots=True)
class _Place:
    """A name in a folder that is watched."""

    folder: int
    name: str


class RecordedFolder:
    """The changes in a folder that is empty at first, in the order in which they were made."""

    def __init__(self, path: Path) -> None:
        self.changes: list[Change] = []
        self.words: list[str] = []
        """What each change was, such as `write records.jsonl`."""
        self._path = path.resolve()
        self._inodes = [_Inode(is_folder=True)]
        self._files: dict[int, tuple[int, str]] = {}
        """Descriptor -> inode and name of an open file or folder."""
        self._lock = threading.RLock()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Context in which the changes are recorded, those of all threads of this process."""
        with pytest.MonkeyPatch.context() as patch:
            for hook in (
                *(self._open, self._close, self._write, self._ftruncate, self._fsync),
                *(self._mkdir, self._symlink, self._unlink, self._rename),
            ):
                self._replace(patch, hook.__name__.removeprefix("_"), hook)
            for name, hook in (
                *(("remove", self._unlink), ("rmdir", self._unlink), ("replace", self._rename)),
            ):
                self._replace(patch, name, hook)
            for module in (io, builtins):
                patch.setattr(module, "open", _pyio.open)  # which calls the functions of `os`
            yield

    def left(self, number: int, what: Left, place: Path, seed: int = 0) -> None:
        """Writes what is left after so many changes to a folder that is not there yet."""
        inodes = [_Inode(is_folder=True)]
        for change in self.changes[:number]:
            change(inodes)
        _restore(inodes, 0, place, what, random.Random(f"{number} {seed}"))

    def _replace(self, patch: pytest.MonkeyPatch, name: str, hook: Callable[..., Any]) -> None:
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                return hook(real, *arguments, **options)

        patch.setattr(os, name, call)

    def _note(self, words: str, change: Change) -> None:
        change(self._inodes)
        self.changes.append(change)
        self.words.append(words)

    def _place(self, path: Any, folder: int | None = None) -> _Place | None:
        """The place of a path; None elsewhere."""
        base = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
        whole = Path(os.path.normpath(os.path.join(base, os.fsdecode(path))))
        if not whole.is_relative_to(self._path) or whole == self._path:
            return None
        number, (*folders, name) = 0, whole.relative_to(self._path).parts
        for part in folders:
            number = self._inodes[number].names.get(part, -1)
            if number < 0:
                return None
        return _Place(number, name)

    def _at(self, place: _Place) -> int | None:
        return self._inodes[place.folder].names.get(place.name)

    def _make(self, words: str, place: _Place, **kind: Any) -> int:
        number = len(self._inodes)

        def change(inodes: Inodes) -> None:
            inodes.append(_Inode(**kind))
            inodes[place.folder].names[place.name] = number

        self._note(f"{words} {place.name}", change)
        return number

    def _open(self, real: Any, path: Any, flags: int, *mode: int, **options: Any) -> int:
        place = self._place(path, options.get("dir_fd"))
        descriptor: int = real(path, flags, *mode, **options)
        if place is not None:
            number = self._at(place)
            if number is None:
                number = self._make("create", place)
            elif flags & os.O_TRUNC:
                self._resize(number, place.name, 0)
            self._files[descriptor] = number, place.name
        elif Path(os.fsdecode(path)).resolve() == self._path:
            self._files[descriptor] = 0, "."
        return descriptor

    def _close(self, real: Any, descriptor: int) -> None:
        self._files.pop(descriptor, None)
        real(descriptor)

    def _write(self, real: Any, descriptor: int, data: Any) -> int:
        if descriptor not in self._files:
            return int(real(descriptor, data))
        number, name = self._files[descriptor]
        written = int(real(descriptor, data))
        begin = os.lseek(descriptor, 0, os.SEEK_CUR) - written
        text = bytes(data)[:written]

        def change(inodes: Inodes) -> None:
            inodes[number].content[begin : begin + len(text)] = text

        self._note(f"write {name}", change)
        return written

    def _ftruncate(self, real: Any, descriptor: int, size: int) -> None:
        real(descriptor, size)
        if descriptor in self._files:
            self._resize(*self._files[descriptor], size)

    def _resize(self, number: int, name: str, size: int) -> None:
        def change(inodes: Inodes) -> None:
            content = inodes[number].content
            content[:] = content[:size].ljust(size, b"\0")

        self._note(f"resize {name}", change)

    def _fsync(self, real: Any, descriptor: int) -> None:
        real(descriptor)
        if descriptor not in self._files:
            return
        number, name = self._files[descriptor]

        def change(inodes: Inodes) -> None:
            inode = inodes[number]
            inode.synced, inode.synced_names = bytes(inode.content), dict(inode.names)

        self._note(f"sync {name}", change)

    def _mkdir(self, real: Any, path: Any, *mode: int, **options: Any) -> None:
        place = self._place(path, options.get("dir_fd"))
        real(path, *mode, **options)
        if place is not None:
            self._make("make", place, is_folder=True)

    def _symlink(self, real: Any, target: Any, path: Any, **options: Any) -> None:
        real(target, path, **options)
        if (place := self._place(path)) is not None:
            self._make("link", place, target=os.fsdecode(target))

    def _unlink(self, real: Any, path: Any, **options: Any) -> None:
        place = self._place(path, options.get("dir_fd"))
        real(path, **options)
        if place is not None:
            self._note(
                f"remove {place.name}", lambda inodes: inodes[place.folder].names.pop(place.name)
            )

    def _rename(self, real: Any, source: Any, target: Any, **options: Any) -> None:
        before, after = self._place(source), self._place(target)
        real(source, target, **options)
        if before is not None and after is not None:

            def change(inodes: Inodes) -> None:
                moved = inodes[before.folder].names.pop(before.name)
                inodes[after.folder].names[after.name] = moved

            self._note(f"rename {after.name}", change)


def _restore(inodes: Inodes, number: int, path: Path, what: Left, rng: random.Random) -> None:
    inode = inodes[number]
    if inode.target:
        path.symlink_to(inode.target)
    elif inode.is_folder:
        path.mkdir()
        keeps = what in (Left.ALL, Left.NAMES) or (what is Left.SOME and rng.random() < 0.5)
        for name, inside in (inode.names if keeps else inode.synced_names).items():
            _restore(inodes, inside, path / name, what, rng)
    else:
        path.write_bytes(_content(inode, what, rng))


def _content(inode: _Inode, what: Left, rng: random.Random) -> bytes:
    now = bytes(inode.content)
    if what is Left.ALL:
        return now
    if what is not Left.SOME or not now.startswith(inode.synced):
        return inode.synced
    kept = rng.randrange(len(inode.synced), len(now) + 1)  # of what was added since the last sync
    return now[:kept] + bytes(rng.choice((0, len(now) - kept)))
