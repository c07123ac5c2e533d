"""Whether the best depths of the parts of a table differ, with planted ones."""

import numpy as np

from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion


def notes(**best: float) -> str:
    """The notes on a table of corpora, each with its best depth."""
    draws = np.random.default_rng(0)
    rows: list[dict[str, object]] = [
        {"depth": depth, "params": 1e7, "corpus": corpus, "seed": seed,
         "loss": 3 + 0.1 * np.log(depth / of_corpus) ** 2 + draws.normal(0, 0.003)}
        for corpus, of_corpus in best.items() for depth in (2, 4, 6, 8, 12, 16) for seed in range(3)
    ]  # fmt: skip
    return " ".join(analyse_table(rows_of("t", rows), {}, TableQuestion(by=("corpus",))).notes)


def test_corpora_with_other_best_depths_are_said_to_differ() -> None:
    said = notes(web=4.0, code=8.0)

    assert "at 10M, the best depth of corpus=web is 0.49 times" in said
    assert "times that of corpus=code [0.4" in said


def test_corpora_with_one_best_depth_are_not_shown_to_differ() -> None:
    assert "not shown to differ" in notes(web=6.0, code=6.0)


def test_corpora_whose_best_depth_is_at_an_end_are_not_compared() -> None:
    assert "differ" not in notes(web=40.0, code=6.0)
