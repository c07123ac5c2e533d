"""Texts with labels: what is read from each kind of place, and what is said of what is wrong."""

import gzip
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fathom.objectives.rows.classification.keys import ClassificationConfig
from fathom.objectives.rows.classification.labelled_texts import Text, TextVocabulary
from tests.support.objectives import keys_of, refused


def read(data: Path | str, **changes: Any) -> tuple[dict[str, list[Text]], TextVocabulary]:
    settings = {"validation_fraction": 0.25, "context": 64, "listops": {"examples": 200}}
    keys = keys_of("classification", data=str(data), **settings | changes)
    assert isinstance(keys, ClassificationConfig)
    return keys.read()


def texts_of(data: Path | str, **changes: Any) -> set[tuple[str, str]]:
    splits, _ = read(data, **changes)
    return {(text.label, text.text) for texts in splits.values() for text in texts}


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content)
    return path


def table_of(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    return write(path, "\n".join("\t".join(row) for row in rows))


ROWS = [("good" if n % 2 else "bad", f"text {n}") for n in range(8)]


@pytest.mark.parametrize("name", ["x.tsv", "x.tsv.gz"])
@pytest.mark.parametrize(("label", "order"), [("first", 1), ("last", -1)])
def test_columns_are_read_as_told(tmp_path: Path, label: str, order: int, name: str) -> None:
    path = table_of(tmp_path / name, [row[::order] for row in ROWS])
    assert texts_of(path, label=label) == set(ROWS)


@pytest.mark.parametrize(
    "header", ["Source\tTarget", "sentence\tlabel", "id\tsentence\tlabel", "label\tsentence"]
)
def test_a_header_says_which_column_is_which(tmp_path: Path, header: str) -> None:
    cells = {"id": "7"}
    lines = [header]
    for label, text in ROWS:
        cells |= dict.fromkeys(("label", "Target"), label)
        cells |= dict.fromkeys(("sentence", "Source"), text)
        lines.append("\t".join(cells[name] for name in header.split("\t")))

    assert texts_of(write(tmp_path / "x", "\n".join(lines))) == set(ROWS)


def folders(root: Path, *classes: str, texts: int = 4) -> Path:
    for label in classes:
        for n in range(texts):
            write(root / label / f"{n}.txt", f"{label} {n} of {root.name}")
    return root


def test_a_folder_has_a_folder_for_each_class(tmp_path: Path) -> None:
    folders(tmp_path, "neg", "pos")
    write(tmp_path / "pos" / "9.txt.gz", "zipped")
    write(tmp_path / "pos" / "notes.feat", "0:1")
    write(tmp_path / ".hidden" / "1.txt", "no class")
    write(tmp_path / "README", "no class either")

    found = texts_of(tmp_path)

    assert {label for label, _ in found} == {"neg", "pos"}
    assert len(found) == 9
    assert ("pos", "zipped") in found


def test_a_folder_of_reviews_has_its_own_test_and_classes_that_it_lacks_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders(tmp_path / "train", "neg", "pos", "unsup")
    folders(tmp_path / "test", "neg", "pos")

    with caplog.at_level(logging.WARNING):
        splits, vocabulary = read(tmp_path)

    assert vocabulary.classes == ("neg", "pos")
    assert "test/ lacks: unsup" in caplog.text
    assert tuple(len(splits[name]) for name in ("train", "dev", "test")) == (6, 2, 8)


def test_a_part_of_every_class_is_held_out_in_whatever_order_they_come(tmp_path: Path) -> None:
    rows = [f"{'ab'[n % 2]}\tnumber {n}" for n in range(100)]
    splits, _ = read(write(tmp_path / "x", "\n".join(rows)), label="first", validation_fraction=0.5)

    labels = [text.label for text in splits["dev"]]
    assert len(labels) == 50
    assert 15 < labels.count("a") < 35
    assert not {text.text for text in splits["dev"]} & {text.text for text in splits["train"]}


WRONG: dict[str, tuple[str, ...]] = {
    "a\tb\n": ("line 1 of", "names no columns", "`label: first`"),
    "a\tb\tc\n": ("first", "line 1 of", "2 columns", "got 3"),
    "a\tb\nc\n": ("last", "line 2 of", "2 columns", "got 1"),
    "label\ttext\nx\t \n": ("line 2 of", "both a label and a text"),
    "label\ttext\n": ("at least one row",),
    "": ("first", "at least one row"),
    "rating\tbody\n" + "good\ta b\nbad\tc d\n" * 20: (
        *("first", "line 1 of", "'rating', and looks like a header"),
    ),
    "a\tb c\n" * 9: ("first", "enough rows to hold out"),
    "".join(f"a\tb {n}\n" for n in range(9)): ("first", "two classes", "got 1 labels"),
    "".join(f"text {n}\ta {n}\n" for n in range(40)): (
        *("first", "got 30 labels in 30 texts", "check `label`"),
    ),
}
"""Table -> `label`, where the study has it, and words of the refusal."""


@pytest.mark.parametrize("content", WRONG)
def test_a_mistake_in_a_table_is_one_line(tmp_path: Path, content: str) -> None:
    first, *words = WRONG[content]
    label = {"label": first} if first in ("first", "last") else {}
    with refused(*(words if label else (first, *words))):
        read(write(tmp_path / "bad.tsv", content), **label)


def test_a_mistake_in_a_place_is_one_line(tmp_path: Path) -> None:
    rows = str(table_of(tmp_path / "rows", ROWS))
    other = {"other": str(write(tmp_path / "other", "ugly\ta text\n"))}
    (tmp_path / "folder").mkdir()
    with refused("did you mean 'listops_d20s'"):
        read("listops_d20")
    with refused("a folder of", "for each class"):
        read(tmp_path / "folder")
    with refused("must not be called 'dev'"):
        read("listops", test={"dev": "listops_d8"})
    with refused("line 1 of", "other must have a label", "got 'ugly'"):
        read(rows, label="first", test=other)


def test_a_text_is_cut_only_on_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = table_of(tmp_path / "x", [*ROWS, ("bad", "a b c d e")])

    with refused("line 9 of", "has 5 tokens, got context=4; use 5 or more"):
        read(path, label="first", context=4)
    with caplog.at_level(logging.WARNING):
        read(path, label="first", context=4, cut=True)
    assert "cut 1 of 9 texts to 4 tokens" in caplog.text


def test_words_bytes_and_the_most_frequent_words(tmp_path: Path) -> None:
    rows = [("ab"[n % 2], f"it is é {n}") for n in range(20)]
    path = table_of(tmp_path / "x", rows)

    _, words = read(path, label="first")
    _, some = read(path, label="first", tokenizer="words:2")
    _, as_bytes = read(path, label="first", tokenizer="bytes")

    assert words.size == 2 + 3 + 15 + 2, "padding, the unseen; it, is, é; numbers; classes"
    assert words.ids("it was") == [words.words["it"], 1]
    assert list(some.words) == ["is", "é"] or list(some.words) == ["is", "it"]
    assert some.ids("is nine") == [some.words["is"], 1]
    assert as_bytes.size == 2 + 256 + 2
    assert as_bytes.ids("é") == [2 + 0xC3, 2 + 0xA9]
    assert as_bytes.length("é") == 2
