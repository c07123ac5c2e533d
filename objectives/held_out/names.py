"""The split to which a file or folder belongs, by the usual words in its name."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

TRAIN, VALIDATION, TEST = "train", "validation", "test"
WORDS = {
    TRAIN: ("train", "training"),
    VALIDATION: ("val", "valid", "validation", "dev", "devel", "held", "heldout"),
    TEST: ("test",),
}
"""Words for each split, alone or before `set`, `data` or `split`: `val.bin`, `wiki.train.tokens`,
`fineweb_val_000000.bin`, `held-out.txt`, but not `values.txt`."""
MOST_NAMES = 3
"""Most names of files that a line repeats."""
PATTERN = re.compile(
    r"(?<![a-z])(?:"
    + "|".join(f"(?P<{split}>{'|'.join(words)})" for split, words in WORDS.items())
    + r")(?:sets?|data|split)?(?![a-z])"
)


def split_of(name: str) -> str | None:
    """`train`, `validation` or `test`; None if the name has a word of none of them, or of several.

    >>> split_of("fineweb_val_000000.bin"), split_of("values.bin"), split_of("train_val.bin")
    ('validation', None, None)
    """
    found = {match.lastgroup for match in PATTERN.finditer(name.lower())}
    return found.pop() if len(found) == 1 else None


def by_split(paths: Iterable[Path]) -> Mapping[str | None, list[Path]]:
    """Files of each split, in their order; under None those whose names do not name a split."""
    found: dict[str | None, list[Path]] = {}
    for path in paths:
        found.setdefault(split_of(path.name), []).append(path)
    return found


def named_apart(paths: Iterable[Path]) -> bool:
    """True if the names say that some of these files are to be trained on, and some held out."""
    return {TRAIN, VALIDATION} <= by_split(paths).keys()


def entries_of(folder: Path) -> list[Path]:
    """The files and folders in a folder that are not hidden, sorted."""
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def held_out_names(place: str) -> str:
    """The names of held-out files in a folder, in words; empty if names do not tell, or the place
    is no folder."""
    path = os.path.expanduser(place)
    if not os.path.isdir(path):
        return ""
    entries = entries_of(Path(path))
    if not named_apart(entries):
        return ""
    names = [entry.name for entry in by_split(entries)[VALIDATION]]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
