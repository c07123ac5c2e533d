"""Names of metrics in MLflow: `search/tracking/writing/metrics.py`."""

from dataclasses import replace

from fathom.search.tracking.writing.metrics import budget_metrics, layer_metrics, point_metrics
from tests.support.tracked import curve, optimum, trial


def test_the_chart_of_the_loss_comes_before_those_that_explain_it() -> None:
    point = replace(curve(1)[0], metrics={"rank_ratio": 0.5, "bits_per_byte": 3.0})
    by_layer = layer_metrics(replace(trial(), layers={"rank_ratio": (0.5,)}))
    names = [*point_metrics(point), *by_layer]
    assert sorted(names) == [
        *("bits_per_byte", "loss", "model_rank_ratio", "per_layer_rank_ratio", "train_loss")
    ]
    assert not [name for name in names if "/" in name], "a section of its own would stand above"


def test_the_numbers_of_an_answer_have_six_digits() -> None:
    measured = replace(optimum(), noise=0.0123456789)
    assert budget_metrics(measured)["noise"] == 0.0123457
