"""docs/architecture.md: its map has every file of the code and no other."""

import re
from pathlib import Path

from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
[MAP] = re.findall(r"^```text map\n(.*?)^```", PAGE, re.M | re.S)
MAPPED = ("benchmarks", "models", "objectives", "search")
PATH = re.compile(r"(\w+/|\w+\.py)(?=\s|$)")


def paths_in(tree: str) -> list[str]:
    """The paths of an annotated tree; a line names the files of the folder that is two blanks less
    indented above it.

    search/              names a folder
      records.py         names search/records.py
      study/
        plan.py  budget.py   names two files
    """
    paths = []
    folders: list[str] = []
    for line in tree.splitlines():
        folders = folders[: (len(line) - len(line.lstrip())) // 2]
        place = line.lstrip()
        while found := PATH.match(place):
            paths.append("".join(folders) + found[1])
            place = place[found.end() :].lstrip()
        if paths[-1].endswith("/"):
            folders = [*re.findall(r"\w+/", paths[-1])]
    return paths


def files_of(folder: str) -> set[str]:
    """Modules of a package and the folders that hold them, as the map writes them."""
    modules = [path for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py"]
    places = {path.relative_to(ROOT) for path in modules}
    folders = {f"{parent}/" for place in places for parent in place.parents if parent != Path()}
    return {str(place) for place in places} | folders


def test_every_entry_of_the_map_exists() -> None:
    gone = [path for path in paths_in(MAP) if not (ROOT / path).exists()]
    assert not gone


def test_every_file_is_on_the_map() -> None:
    named = paths_in(MAP)

    assert len(named) == len(set(named))
    missing = set().union(*map(files_of, MAPPED)) - {*named}
    assert not missing


def test_the_places_that_its_table_and_sentences_name_exist() -> None:
    named = set(re.findall(r"`((?:search|models|objectives|benchmarks|tests)/[\w/.]*)`", PAGE))
    inside = set(re.findall(r"`((?:study|scheduling|cluster|export)/\w+\.py)`", PAGE))

    assert len(named) > 20
    assert not [path for path in named if not (ROOT / path).exists()]
    assert not [path for path in inside if not (ROOT / "search" / path).exists()]
