"""Exports of other tools: `answers/sources.py`."""

import pytest

from benchmarks.answers.tables.source_writers import EXPORTS, Export
from benchmarks.answers.tables.sources import is_installed, outcomes


@pytest.mark.parametrize(
    "export",
    [
        # A new store of MLflow takes seconds.
        pytest.param(export, marks=[pytest.mark.drill] * (export.tool == "MLflow"))
        for export in EXPORTS
    ],
    ids=lambda export: f"{export.tool}, {export.what}",
)
def test_an_export_is_answered_or_refused_with_what_helps(export: Export) -> None:
    if not is_installed(export):
        pytest.skip(f"{export.tool} is not installed")
    first, *then = outcomes(export)

    if export.advised:
        assert (first.status, first.complaint.count("\n")) == (2, 1)
        assert all(flag in first.flags for flag in export.advised if flag.startswith("--"))
    assert [first, *then][-1].answered, first.complaint
