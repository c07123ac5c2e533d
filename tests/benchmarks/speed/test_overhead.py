"""The benchmark of what a search costs beyond its training."""

import pytest

from benchmarks.speed.overhead import tracking_share


@pytest.mark.drill
def test_every_report_to_mlflow_is_written() -> None:
    assert tracking_share(0.5).endswith("not written in the end: 0")
