"""docs/architecture.md: its map is the one of the code, and what it names is there."""

import re

from docs.extensions.file_map import page_with_map
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_its_map_has_every_file_with_the_first_sentence_of_its_docstring() -> None:
    assert page_with_map() == PAGE, "run `python -m docs.extensions.file_map`"


def test_the_places_that_its_table_and_sentences_name_exist() -> None:
    named = set(re.findall(r"`((?:search|models|objectives|benchmarks|tests)/[\w/.]*)`", PAGE))
    inside = set(re.findall(r"`((?:study|scheduling|cluster|export)/\w+\.py)`", PAGE))

    assert len(named) > 20
    assert not [path for path in named if not (ROOT / path).exists()]
    assert not [path for path in inside if not (ROOT / "search" / path).exists()]
