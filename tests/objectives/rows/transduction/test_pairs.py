"""Rows of source, target and category: what is read, and what is said of those that are wrong."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows.transduction.pairs import Pair, read_pairs, read_splits, words_of
from tests.support.objectives import refused


def splits_of(data: Path | str, **changes: Any) -> dict[str, list[Pair]]:
    settings: dict[str, Any] = {"dev": None, "test": None, "generalisation": {}, "context": 64}
    settings |= {"validation_fraction": 0.1}
    return read_splits(data=str(data), **(settings | changes))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.tsv"
    path.write_text("".join(f"say {n % 30}\t{n % 30} !\n" for n in range(60)))
    return path


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n"])
def test_columns_are_source_target_category_at_any_line_end(tmp_path: Path, ending: str) -> None:
    (tmp_path / "x").write_bytes(f"a b\tc{ending or chr(10)}d\te f{ending}".encode())
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress("a\tb\tcase-1\nc\td\tÄ/b?\n".encode()))

    pairs, named = (read_pairs(str(tmp_path / name)) for name in ("x", "x.tsv.gz"))

    assert [(pair.source, pair.target) for pair in pairs] == [("a b", "c"), ("d", "e f")]
    assert [pair.category for pair in (*pairs, *named)] == ["", "", "case-1", "__b_"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"Source\ttarget\na\tb\n", ("line 1 of", "names the columns (Source, target)", "delete")),
        (b"input\toutput\ttype\na\tb\tc\n", ("line 1 of", "names the columns", "delete")),
        (b"source,target\na,b\n", ("line 1 of", "looks like CSV", "csv.reader")),
        (b'"a"\t"b"\n', ("line 1 of", "looks like CSV")),
        (b"a\n", ("line 1 of", "2 or 3 columns", "got 1")),
        (b"a\tb\tc\td\n", ("line 1 of", "2 or 3 columns", "got 4")),
        (b"a\tb\n\na b\n", ("line 3 of", "2 columns like its first row", "got 1")),
        (b"a\tb\tc\nd\te\n", ("line 2 of", "3 columns like its first row", "got 2")),
        (b"a\t \n", ("line 1 of", "both a source and a target")),
        (b"a\tb\tall\n", ("line 1 of", "must not have a category called 'all'")),
        (b"a\tb\t" + 101 * b"c", ("line 1 of", "at most 100 characters, got 101")),
        (b"".join(b"a\tb\t%d\n" % n for n in range(201)), ("at most 200 categories, got 201",)),
        (b"", ("at least one row",)),
        (b"a\t\xff\n", ("UTF-8", "0xff in line 1")),
        (None, ("readable file", "No such file")),
    ],
)
def test_mistakes_are_lines(tmp_path: Path, content: bytes | None, words: tuple[str, ...]) -> None:
    path = tmp_path / "bad.tsv"
    if content is not None:
        path.write_bytes(content)

    with refused(*words, "bad.tsv"):
        read_pairs(str(path))


def test_without_a_dev_file_a_fraction_of_the_sources_is_held_out(rows: Path) -> None:
    splits = splits_of(rows, validation_fraction=0.2)

    train, dev = ({pair.source for pair in pairs} for pairs in (splits["train"], splits["dev"]))
    assert len(dev) == 6
    assert len(splits["dev"]) == 12, "copies of a row stay on one side"
    assert not train & dev
    assert len(train | dev) == 30


def test_places_that_cannot_be_split_are_refused(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\tb\n")
    for data, words in (
        (tmp_path / "x", "enough rows to hold out 0.1"),
        ("cog", "did you mean 'cogs'"),
        ("/nowhere/at/all", "check the path"),
    ):
        with refused(words):
            splits_of(data)
    for name in ("train", "dev", "test"):
        with refused(f"must not be called '{name}'"):
            splits_of(rows, generalisation={name: str(rows)})


def test_a_row_too_long_is_an_error_that_names_the_longest(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "gen").write_text("a\tb\na b c\td e f g\n")
    generalisation = {"gen": str(tmp_path / "gen")}

    with pytest.raises(ObjectiveError, match=r"line 2 of .*gen needs 9 tokens, got context=8"):
        splits_of(rows, generalisation=generalisation, context=8)
    splits_of(rows, generalisation=generalisation, context=9)


@pytest.mark.parametrize(
    ("name", "sizes", "longest", "words"),
    [
        ("cogs", (24_155, 3_000, 3_000, 21_000), 543, 831),
        ("cogs_vf", (24_155, 3_000, 3_000, 21_000), 207, 811),
        ("passivization", (100_000, 1_000, 10_000, 10_000), 29, 54),
    ],
)
def test_the_published_sets_are_read_whole(
    mirror: Path, name: str, sizes: tuple[int, ...], longest: int, words: int
) -> None:
    splits = splits_of(name, context=longest)

    everything = [splits[name] for name in ("train", "dev", "test", "gen")]
    assert tuple(map(len, everything)) == sizes
    assert max(pair.context for pairs in everything for pair in pairs) == longest
    known = words_of(splits["train"])
    assert len(known) == words
    if name == "cogs":
        assert [*Counter(pair.category for pair in splits["gen"]).values()] == [1000] * 21
        sources = {word for pair in splits["gen"] for word in pair.source.split()}
        assert sources - known == {"gardner", "monastery"}
