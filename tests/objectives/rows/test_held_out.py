"""Rows that are trained on and held out: all of them are an error, some are told."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.objectives import keys_of, refused

ROWS = [f"w{n % 7} w{n % 11} w{n % 13}\tc{n % 2}" for n in range(100)]
KEYS: dict[str, dict[str, Any]] = {
    "classification": {"label": "last", "context": 8},
    "transduction": {"context": 8},
    "translation": {"tokenizer": "words", "context": 8},
}


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str, list[str]], str]:
    def write(name: str, rows: list[str]) -> str:
        (tmp_path / name).write_text("\n".join(rows) + "\n")
        return str(tmp_path / name)

    return write


def distinct(objective: str) -> list[str]:
    """Rows as an objective takes them; each target of a translation is one source's."""
    if objective != "translation":
        return ROWS
    return [f"{row.partition(chr(9))[0]}\tt{n}" for n, row in enumerate(ROWS)]


@pytest.mark.parametrize("objective", KEYS)
def test_rows_for_both_are_refused_whichever_contains_the_other(
    objective: str, table: Callable[[str, list[str]], str]
) -> None:
    rows = distinct(objective)
    whole, part = table("whole.tsv", rows), table("part.tsv", random.Random(0).sample(rows, 60))
    for data, dev, said in (
        (whole, whole, "100% of its rows are training rows"),
        (whole, part, "100% of its rows are training rows"),
        (part, whole, "100% of the training rows are among its rows"),
    ):
        with refused("`dev` must not be trained on", dev, said, "name other rows"):
            keys_of(objective, data=data, dev=dev, **KEYS[objective]).read()  # type: ignore[attr-defined]


@pytest.mark.parametrize("objective", ["classification", "transduction"])
def test_a_smaller_share_is_told_by_split(
    objective: str, table: Callable[[str, list[str]], str]
) -> None:
    train, dev = table("train.tsv", ROWS[:80]), table("dev.tsv", ROWS[70:])
    further = {"test" if objective == "classification" else "generalisation": {"seen": train}}
    keys = keys_of(objective, data=train, dev=dev, **KEYS[objective], **further)
    assert "training rows are held out as well: 33% of dev, 100% of seen" in keys.data_note()
    apart = keys_of(objective, data=train, dev=table("a.tsv", ROWS[80:]), **KEYS[objective])
    assert "held out" not in apart.data_note()


def test_texts_in_folders_hold_out_what_a_usual_name_says(tmp_path: Path) -> None:
    for n in range(12):
        split = ("train", "train", "validation")[n % 3]
        file = tmp_path / split / f"c{n % 2}" / f"{n}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"text {n}")
    keys: Any = keys_of("classification", data=str(tmp_path), context=8)
    assert sorted(text.text for text in keys.read()[0]["dev"]) == [
        "text 11", "text 2", "text 5", "text 8",
    ]  # fmt: skip
