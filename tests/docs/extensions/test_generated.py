"""The generated parts of the pages are what the program gives, so that GitHub shows them too."""

from pathlib import Path

import pytest

from docs.extensions.generated import pages, written
from tests.support.places import ROOT


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_has_the_generated_text_of_now(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert written(text) == text, "run `python -m docs.extensions.generated`"


def test_no_page_leaves_text_to_the_sites_build() -> None:
    """GitHub shows an include as code; only the results are the site's own."""
    folder = ROOT / "docs"
    told = [page for page in folder.rglob("*.md") if "include} " in page.read_text("utf-8")]
    assert {page.name for page in told} == {"results.md"}
