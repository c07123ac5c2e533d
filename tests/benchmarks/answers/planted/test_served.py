"""A smaller `python -m benchmarks.answers.planted.served`: depths named under limits of time."""

import pytest
from scipy.stats import binom

from benchmarks.answers.planted import served
from benchmarks.answers.planted.served import (
    KINDS,
    ServedKind,
    asked,
    cells,
    figures_of,
)
from benchmarks.pages import measured
from fathom.search.serving.values import Duration


@pytest.mark.drill
@pytest.mark.parametrize("kind", [KINDS[0], ServedKind(losses="flat")], ids=lambda kind: kind.name)
def test_named_depths_are_right_but_for_one_in_twenty(kind: ServedKind) -> None:
    """The bound is binomial: fewer are right once in 10,000, if 19 of 20 of all are."""
    found = [named for number in range(4) for named in asked(kind, number)]
    said = [right for n in found for right in (n.best, n.fastest) if right is not None]
    assert len(said) >= 10, cells(found)
    assert sum(said) >= binom.ppf(1e-4, len(said), 0.95), cells(found)


def test_a_choice_that_trusts_wrong_times_is_counted_as_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Times that are said to be exact, and are off by a factor."""
    monkeypatch.setattr(served, "Duration", lambda seconds, _: _half(seconds))
    found = [named for number in range(3) for named in asked(KINDS[0], number)]
    said = [right for n in found for right in (n.best, n.fastest) if right is not None]
    assert sum(said) < 0.8 * len(said), cells(found)


def _half(seconds: float) -> Duration:
    return Duration(seconds / 2, 0.0)


def test_the_figures_of_the_pages_can_be_written_anew() -> None:
    figures = figures_of({"simple": [], "misleading": []})
    assert set(measured("served")["figures"]) == set(figures)
    one = figures_of({"simple": list(asked(KINDS[0], 0))})
    assert one["simple_asked"][0] == served.LIMITS
