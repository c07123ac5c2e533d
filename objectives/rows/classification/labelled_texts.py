"""Texts with a label each, in splits: generated, published, from a TSV or from folders.

Needs neither torch nor numpy. A TSV has a header that names the columns, or two columns without
one. A folder has a folder of .txt or .txt.gz files for each class, or `train/` and, where there
are any, `dev/` and `test/` of such (as the IMDb reviews).
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.rows.classification import listops
from fathom.objectives.rows.published import LISTOPS
from fathom.objectives.rows.tsv import (
    Place,
    TsvLine,
    check_names,
    not_empty,
    read_lines,
    read_text,
    with_dev,
)

GENERATED = "listops"
LABEL_NAMES = frozenset({"label", "class", "target", "category", "sentiment"})
TEXT_NAMES = frozenset({"text", "sentence", "source", "review", "input", "expression"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Text:
    """A text, its label and where it stands."""

    text: str
    label: str
    origin: str


TextSplits = dict[str, list[Text]]
"""Labelled texts of a study: split -> its texts."""


def read_texts(
    *, data: str, label: str | None, dev: str | None, test: Mapping[str, str],
    rules: Mapping[str, Any], context: int, validation_fraction: float,
) -> TextSplits:  # fmt: skip
    """Split -> its texts: `train`, `dev` and others. Each is read or drawn once; `rules` are those
    of generated expressions.

    Raises:
        ObjectiveError: when a file is missing or malformed or a label unknown.
    """
    check_names(test, "train", "dev")
    found = _generate(rules, context) if data == GENERATED else _read_splits(data, label)
    found |= {name: _read(place, label) for name, place in test.items()}
    if dev is not None:
        found["dev"] = _read(dev, label)
    splits = with_dev(found, attrgetter("text"), validation_fraction, data=data)
    _check_labels(splits, data)
    return splits


def classes_of(splits: TextSplits) -> tuple[str, ...]:
    """Labels of the training texts, sorted."""
    return tuple(sorted({text.label for text in splits["train"]}))


def _generate(rules: Mapping[str, Any], context: int) -> TextSplits:
    drawn = listops.expressions(
        rules["examples"],
        max_depth=rules["max_depth"],
        max_args=rules["max_args"],
        lengths=(rules["min_length"], context),
    )
    return {"train": [Text(text, str(value), "a generated text") for text, value in drawn]}


def _read_splits(data: str, label: str | None) -> TextSplits:
    """Split -> its texts at a place; several if the place is a folder that names them."""
    folder = Path(data).expanduser()
    if data in LISTOPS or not (folder / "train").is_dir():
        return {"train": _read(data, label)}
    names = [name for name in ("train", "dev", "test") if (folder / name).is_dir()]
    found = {name: _read_folder(folder / name) for name in names}
    return _without_unasked(found)


def _without_unasked(found: TextSplits) -> TextSplits:
    """The splits without the classes that `test/` lacks, such as IMDb's unlabelled `unsup`."""
    if "test" not in found:
        return found
    asked = {text.label for text in found["test"]}
    unasked = sorted({text.label for text in found["train"]} - asked)
    if unasked:
        logger.warning("left out %s of train/, which test/ does not have", ", ".join(unasked))
    return {name: [text for text in own if text.label in asked] for name, own in found.items()}


def _read(place: str, label: str | None) -> list[Text]:
    """Reads the texts at one place: a published set, a folder of classes or a TSV."""
    if place in LISTOPS:
        return [
            Text(listops.without_parentheses(text.text), text.label, text.origin)
            for text in not_empty(_rows(LISTOPS[place], "first"), LISTOPS[place])
        ]
    path = Path(place).expanduser()
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        known = [GENERATED, *LISTOPS]
        raise ObjectiveError(
            f"`data` must be one of {', '.join(known)}, or the path of a folder or TSV, got "
            f"{place!r}; {nearest(place, known)}"
        )
    return not_empty(_rows(place, label), place)


def _read_folder(folder: Path) -> list[Text]:
    """Texts in the files of each class, sorted; skips hidden folders and other files."""
    texts = [
        Text(read_text(str(file)), own.name, str(file))
        for own in sorted(folder.iterdir())
        if own.is_dir() and not own.name.startswith(".")
        for file in sorted(own.iterdir())
        if file.name.endswith((".txt", ".txt.gz"))
    ]
    if not texts:
        raise ObjectiveError(
            f"{folder} must have a folder of .txt or .txt.gz files for each class, got none; "
            "check the path"
        )
    return texts


def _rows(place: Place, label: str | None) -> Iterator[Text]:
    columns: tuple[int, int, int] | None = None
    for line in read_lines(place):
        if columns is None:
            columns = _header(line)
            if columns is not None:
                continue
            columns = _columns(line, label)
        label_at, text_at, count = columns
        if len(line.cells) != count:
            raise ObjectiveError(
                f"{line} must have {count} columns with a tab between, got {len(line.cells)}; "
                "correct that line"
            )
        text, own = line.cells[text_at].strip(), line.cells[label_at].strip()
        if not (text and own):
            raise ObjectiveError(f"{line} must have both a label and a text; fill in or drop it")
        yield Text(text, own, str(line))


def _header(line: TsvLine) -> tuple[int, int, int] | None:
    """The columns of label and text, and how many there are, where a header names them."""
    names = [cell.strip().lower() for cell in line.cells]
    labels = [at for at, name in enumerate(names) if name in LABEL_NAMES]
    texts = [at for at, name in enumerate(names) if name in TEXT_NAMES]
    return (labels[0], texts[0], len(names)) if labels and texts else None


def _columns(line: TsvLine, label: str | None) -> tuple[int, int, int]:
    if label is None:
        raise ObjectiveError(
            f"{line} names no columns, so the study must say where the label is: "
            "`label: first` or `label: last`"
        )
    return (0, 1, 2) if label == "first" else (1, 0, 2)


def _check_labels(splits: TextSplits, data: str) -> None:
    classes, train = classes_of(splits), splits["train"]
    if len(classes) < 2 or 2 * len(classes) > max(4, len(train)):
        raise ObjectiveError(
            f"{data} must have at least two classes and two texts of each, got {len(classes)} "
            f"labels in {len(train)} texts; check `label`, the column of the label"
        )
    known = set(classes)
    for text in (text for own in splits.values() for text in own):
        if text.label not in known:
            raise ObjectiveError(
                f"{text.origin} must have a label that the training texts have, got "
                f"{text.label!r}; correct it, or add training texts of that class"
            )
