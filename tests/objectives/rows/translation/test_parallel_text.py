"""Pairs of sentences in splits: what is held out, and what is said where there are too few."""

from pathlib import Path
from typing import Any

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.translation.generated import DrawnLanguage
from fathom.objectives.rows.translation.pair_files import Files
from fathom.objectives.rows.translation.parallel_text import ParallelText, read_parallel_text
from tests.support.objectives import refused

LANGUAGE = DrawnLanguage(pairs=200, nesting=2, nouns=9, verbs=9)


def text_of(data: Files, **changes: Any) -> ParallelText:
    settings: dict[str, Any] = {"dev": None, "test": None, "columns": (1, 2), "held_out": 10}
    settings |= {"train_pairs": None, "generated": LANGUAGE}
    return read_parallel_text(data=data, **(settings | changes))


def table(folder: Path, *more: str, count: int = 60, sources: int = 1000) -> str:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"one {n % sources}\teins {n}\n" for n in range(count)) + "".join(more))
    return str(path)


@pytest.mark.parametrize("name", ["multi30k_en_d", "missing.tsv"])
def test_a_place_that_is_not_there_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(ObjectiveError, match=r"multi30k_en_de.*two paths"):
        text_of(name)


def test_a_line_in_a_hundred_with_one_side_alone_is_dropped_and_counted(tmp_path: Path) -> None:
    text = text_of(table(tmp_path, "alone\t\n", "\tallein", count=200))

    assert text.unusable == 2
    assert len(text.train) + len(text.dev) + len(text.test) == 200


def test_what_is_held_out_depends_on_the_sources_alone(tmp_path: Path) -> None:
    place = table(tmp_path)
    first = text_of(place)
    lines = Path(place).read_text().splitlines(keepends=True)
    Path(place).write_text("".join(reversed(lines)))
    again = text_of(place)

    assert len(first.dev) == len(first.test) == 6  # a tenth
    assert (first.dev, first.test) == (again.dev, again.test)
    assert {*first.train} == {*again.train}
    assert len({*first.train, *first.dev, *first.test}) == 60
    assert first.overlapping == 0


def test_training_pairs_that_share_a_side_with_held_out_ones_are_counted(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("a\tA\nb\tB\n")
    more = ("a\tother\n", "other\tB\n", "a\tA\n")

    text = text_of(table(tmp_path, *more, count=30), test=f"{tmp_path}/test.tsv")

    sides = {side for pair in (*text.dev, *text.test) for side in (pair.source, pair.target)}
    assert not any({pair.source, pair.target} & sides for pair in text.train)
    assert text.overlapping + len(text.train) + len(text.dev) == 33
    assert text.overlapping >= 3


def test_a_source_with_several_translations_is_on_one_side(tmp_path: Path) -> None:
    text = text_of(table(tmp_path, sources=20))

    assert len(text.dev) == len({pair.source for pair in text.dev}) == 2
    assert len(text.train) == 48
    assert text.overlapping == 8


def test_fewer_pairs_are_a_part_of_more_with_the_same_held_out(tmp_path: Path) -> None:
    place = table(tmp_path)
    few, more, all_of_them = (text_of(place, train_pairs=count) for count in (10, 30, None))

    assert {*few.train} < {*more.train} < {*all_of_them.train}
    assert (len(few.train), len(more.train)) == (10, 30)
    assert few.dev == more.dev == all_of_them.dev


def test_too_few_pairs_are_refused(tmp_path: Path) -> None:
    place, few = table(tmp_path), tmp_path / "few"
    few.mkdir()
    for data, changes, words in (
        (table(few, count=8), {}, ("enough pairs to hold out", "got 8 different sources", "`dev`")),
        (place, {"train_pairs": 49}, ("`train_pairs` must be at most", "48", "got 49", "lower it")),
        (
            place,
            {"dev": place, "test": place},
            ("`dev` must not be trained on", "100% of its rows", "leave `dev` out"),
        ),
    ):
        with refused(*words):
            text_of(data, **changes)
