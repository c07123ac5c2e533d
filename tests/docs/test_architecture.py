"""Pages on the code: docs/files.md lists every folder, docs/architecture.md names what is there."""

import re

from docs.extensions.file_map import page_with_map
from tests.support.places import ROOT


def test_its_map_has_every_folder_with_its_modules() -> None:
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")

    assert page_with_map() == page, "run `python -m docs.extensions.file_map`"


def test_the_places_that_the_architecture_names_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    top = "search|models|objectives|papers|benchmarks|tests"
    named = set(re.findall(rf"`((?:{top})/[\w/.]*)`", page))
    inside = set(re.findall(r"`((?:study|scheduling|cluster|export|conclusion)/[\w/.]+)`", page))

    assert len(named) > 20
    assert not [path for path in named if not (ROOT / path).exists()]
    assert not [path for path in inside if not (ROOT / "search" / path).exists()]
