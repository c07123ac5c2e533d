"""A row of the table of exported models: `benchmarks/answers/trained/exports.py`."""

import pytest

from benchmarks.answers.trained.exports import present, row
from fathom.models.options import Normalization
from fathom.models.parametrization import Scheme


def test_a_row_has_both_counts_and_the_difference_of_losses() -> None:
    cells = row("hf", {"norm": Normalization.RMS}, Scheme.COMPLETEP, None)
    name, model, options, scheme, ours, theirs, loss, apart = map(str, cells)
    assert (name, model, options, scheme) == ("hf", "Arcee", "norm: rms", "completep")
    assert ours == theirs
    assert float(apart) < 1e-6 * float(loss)


def test_a_missing_framework_is_left_out_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "hf" in set(present(None))
    assert "nanogpt is left out" in capsys.readouterr().out
