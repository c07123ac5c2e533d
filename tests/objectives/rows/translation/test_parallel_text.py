"""Pairs of sentences: what is read, what is held out, and what is said of files that are wrong."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.published import TRANSLATION
from fathom.objectives.rows.translation.generated import DrawnLanguage
from fathom.objectives.rows.translation.parallel_text import (
    Files,
    ParallelText,
    SentencePair,
    read_pairs,
    read_parallel_text,
)

LANGUAGE = DrawnLanguage(pairs=200, nesting=2, nouns=9, verbs=9)


def text_of(data: Files, **changes: Any) -> ParallelText:
    settings: dict[str, Any] = {
        "dev": None,
        "test": None,
        "columns": (1, 2),
        "held_out": 10,
        "train_pairs": None,
        "generated": LANGUAGE,
    }
    return read_parallel_text(data=data, **(settings | changes))


def table(folder: Path, count: int = 60) -> str:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"one {n}\teins {n}\n" for n in range(count)))
    return str(path)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_two_files_are_read_line_by_line_whatever_ends_them(
    tmp_path: Path, ending: str, suffix: str
) -> None:
    pack = gzip.compress if suffix else bytes
    for side, lines in (("en", ["Go  on.", "Hi!"]), ("fr", ["Continue\u00a0!", " Salut !"])):
        content = "".join(line + ending for line in lines).encode()
        (tmp_path / f"x.{side}{suffix}").write_bytes(pack(content))

    found, _ = read_pairs((f"{tmp_path}/x.en{suffix}", f"{tmp_path}/x.fr{suffix}"), (1, 2))

    assert found == [SentencePair("Go on.", "Continue !"), SentencePair("Hi!", "Salut !")]


def test_a_table_has_source_and_target_in_the_named_columns_and_may_have_more(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(b"7\tGo.\t8\tVa !\n\n9\tHi.\t3\tSalut\n"))

    found, _ = read_pairs(str(tmp_path / "x.tsv.gz"), (4, 2))

    assert found == [SentencePair("Va !", "Go."), SentencePair("Salut", "Hi.")]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (b"a\nb\n", b"A\n", ("as many lines", "got 2 and 1", "belong together")),
        (b"a\n\nc\n\n", b"A\nB\nC\nD\n", ("line 2 of", "x.en", "1 more line", "both sides")),
        (b"a\nb\n", b"A\n \n", ("line 2 of", "x.fr", "target is empty", "both sides")),
        (b"a\n", b"\xff\n", ("x.fr", "UTF-8", "0xff", "convert")),
        (b"\n", b"\n", ("at least one row", "none")),
    ],
)
def test_files_that_do_not_fit_are_refused_with_the_line_and_the_remedy(
    tmp_path: Path, source: bytes, target: bytes, words: tuple[str, ...]
) -> None:
    (tmp_path / "x.en").write_bytes(source)
    (tmp_path / "x.fr").write_bytes(target)

    with pytest.raises(ObjectiveError) as refused:
        read_pairs((f"{tmp_path}/x.en", f"{tmp_path}/x.fr"), (1, 2))

    assert all(word in str(refused.value) for word in words), refused.value
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "columns", "words"),
    [
        ("a\tA\nb\n", (1, 2), ("line 2 of", "2 columns", "got 1", "two files")),
        ("a\tA\n", (1, 4), ("line 1 of", "4 columns", "got 2", "`columns`")),
        ("a\tA\nb\t\n", (1, 2), ("line 2 of", "target is empty")),
    ],
)
def test_a_table_that_lacks_a_column_is_refused(
    tmp_path: Path, content: str, columns: tuple[int, int], words: tuple[str, ...]
) -> None:
    (tmp_path / "x.tsv").write_text(content)

    with pytest.raises(ObjectiveError) as refused:
        read_pairs(str(tmp_path / "x.tsv"), columns)

    assert all(word in str(refused.value) for word in words), refused.value


@pytest.mark.parametrize("name", ["multi30k_en_d", "missing.tsv"])
def test_a_place_that_is_not_there_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(ObjectiveError, match=r"multi30k_en_de.*two paths"):
        text_of(name)


def test_a_line_in_a_hundred_with_one_side_alone_is_dropped_and_counted(tmp_path: Path) -> None:
    rows = [f"s{n}\tt{n}" for n in range(200)]
    (tmp_path / "x.tsv").write_text("\n".join([*rows, "alone\t", "\tallein"]))

    text = text_of(f"{tmp_path}/x.tsv")

    assert text.half_empty == 2
    assert len(text.train) + len(text.dev) + len(text.test) == 200


def test_a_missing_one_of_two_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.en").write_text("a\n")

    with pytest.raises(ObjectiveError, match=r"x\.fr must be a readable file"):
        text_of((f"{tmp_path}/x.en", f"{tmp_path}/x.fr"))


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


def test_no_training_pair_shares_a_side_with_one_that_is_held_out_and_they_are_counted(
    tmp_path: Path,
) -> None:
    (tmp_path / "test.tsv").write_text("a\tA\nb\tB\n")
    rows = [f"s{n}\tt{n}" for n in range(30)]
    (tmp_path / "x.tsv").write_text("\n".join([*rows, "a\tother", "other\tB", "a\tA"]))

    text = text_of(f"{tmp_path}/x.tsv", test=f"{tmp_path}/test.tsv")

    sides = {side for pair in (*text.dev, *text.test) for side in (pair.source, pair.target)}
    assert not any({pair.source, pair.target} & sides for pair in text.train)
    assert text.overlapping + len(text.train) + len(text.dev) == 33
    assert text.overlapping >= 3


def test_a_source_with_several_translations_is_on_one_side(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("".join(f"s{n % 20}\tt{n}\n" for n in range(60)))

    text = text_of(f"{tmp_path}/x.tsv")

    assert len(text.dev) == len({pair.source for pair in text.dev}) == 2
    assert len(text.train) == 48
    assert text.overlapping == 8


def test_fewer_pairs_are_a_part_of_more_with_the_same_held_out(tmp_path: Path) -> None:
    place = table(tmp_path)
    few, more, all_of_them = (text_of(place, train_pairs=count) for count in (10, 30, None))

    assert {*few.train} < {*more.train} < {*all_of_them.train}
    assert (len(few.train), len(more.train)) == (10, 30)
    assert few.dev == more.dev == all_of_them.dev


@pytest.mark.parametrize(
    ("count", "changes", "words"),
    [
        (8, {}, ("enough to hold out", "got 8 different sources", "`dev`")),
        (60, {"train_pairs": 49}, ("`train_pairs` must be at most", "48", "got 49", "lower it")),
    ],
)
def test_too_few_pairs_are_refused(
    tmp_path: Path, count: int, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(ObjectiveError) as refused:
        text_of(table(tmp_path, count), **changes)

    assert all(word in str(refused.value) for word in words), refused.value


def test_training_pairs_that_are_all_held_out_are_refused(tmp_path: Path) -> None:
    place = table(tmp_path)

    with pytest.raises(ObjectiveError, match="not in `dev` and `test` as well, got 60, all"):
        text_of(place, dev=place, test=place)


def test_published_pairs_have_three_splits_of_two_files_each() -> None:
    for splits in TRANSLATION.values():
        assert [*splits] == ["train", "dev", "test"]
        assert len({file.sha256 for pair in splits.values() for file in pair}) == 6
