"""The page of several horizons in a browser: the handle over tokens."""

from dataclasses import replace
from pathlib import Path

import pytest

from fathom.search.report.pages.horizons import horizons_page
from tests.support.browser import browser
from tests.support.reporting import BUDGETS, CONFIG, conclusion_of
from tests.support.simulated import simulated_study

pytestmark = [pytest.mark.browser, pytest.mark.drill]


def at_horizon(tokens_per_parameter: float) -> dict[str, object]:
    """The keys of a study that is one of two horizons."""
    ratios = {"tokens": None, "tokens_per_parameter": tokens_per_parameter}
    return ratios | {"horizon_of": (20.0, 40.0)}


def test_the_handle_over_tokens_shows_one_horizon_at_the_same_size(tmp_path: Path) -> None:
    conclusions = [
        conclusion_of(simulated_study(budgets=BUDGETS[:count]), study=f"at-{count}")
        for count in (2, 3)
    ]
    answers = [
        replace(found, config=found.config.model_copy(update=at_horizon(20 * i)))
        for i, found in enumerate(conclusions, 1)
    ]
    text = horizons_page(CONFIG, answers, None, link="{}.html")
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    shown = "[...document.querySelectorAll('figure.sounding:not([hidden])')].map((f) => f.id)"
    with browser(tmp_path / "profile") as opened:
        opened.open((tmp_path / "page.html").as_uri())
        opened.wait_for("document.readyState === 'complete' && !!document.querySelector('.at')")
        assert opened.ask(shown) == ["sounding-40"]
        opened.ask("document.querySelector('.horizons input').focus()")
        opened.press("ArrowLeft")
        assert opened.ask(shown) == ["sounding-20"]
        said = "document.querySelector('#sounding-20 output').textContent"
        assert opened.ask(said).startswith("At 1M parameters"), "the size nearest to 3M"
        told = opened.ask("document.activeElement.getAttribute('aria-valuetext')")
        assert told == "20 tokens per parameter"
        for width in (390, 1280):
            opened.show(width=width, height=900, scheme="light")
            root = "document.documentElement"
            assert opened.ask(f"{root}.scrollWidth - {root}.clientWidth") <= 0
        assert opened.errors == []
