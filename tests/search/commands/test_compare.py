"""`fathom compare`: studies of other splits by the difference of their best losses."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fathom.search.commands.compare import compare_runs, comparison_reply, print_comparison
from fathom.search.record_json import to_json
from fathom.search.records import CurvePoint, Outcome, Report, Stage, TrialRecord, TrialSpec
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.keys.config import dump, parse
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.shapes import feasible_shapes
from tests.support.contract import printed_values
from tests.support.reporting import printed
from tests.support.training import record_of


def run_of(folder: Path, split: str, best: float, **keys: Any) -> Path:
    """A run folder whose depths lose more, the further they are from 4."""
    values = {
        "study": f"s{split}",
        "objective": {"name": "tests.support.reversal:Reversal", "context": 8},
        "budgets": ["40k"],
        "tokens": "10k",
        "space": {"split": split, "depth": [2, 9], "n_heads": 2},
    } | keys
    config = parse(json.dumps(values))
    [budget] = expand_budgets(config)
    shapes = {shape.depth: shape for shape in feasible_shapes(config, budget, 10)}
    records: list[TrialRecord] = []
    for depth, shape in shapes.items():
        for seed in range(2):
            name = f"40k-confirm-{len(records):03}"
            spec = TrialSpec(
                trial=name, study=config.study, stage=Stage.CONFIRM, budget=budget.params,
                count=config.count, horizon_tokens=budget.tokens, shape=shape, seed=seed,
                learning_rate=config.train.learning_rate, rate_scale=1.0, prunable=False,
            )  # fmt: skip
            loss = best + 0.05 * abs(depth - 4) + 0.002 * seed
            point = CurvePoint(
                step=budget.steps, tokens=budget.tokens, loss=loss, train_loss=loss,
                train_seconds=1.0, time=1.0,
            )  # fmt: skip
            report = Report(points=(point,), outcome=Outcome.FINISHED)
            records.append(record_of(spec, report))
    path = folder / config.study
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(dump(config))
    (path / "records.jsonl").write_text("".join(json.dumps(to_json(r)) + "\n" for r in records))
    return path


def test_a_split_that_is_far_better_is_called_so(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "1-1", 1.0), run_of(tmp_path, "2-1", 1.4)]
    studies, [pair] = compare_runs(runs)
    assert [study.best[40_000].depth for study in studies] == [4, 4]
    assert pair.text == "s1-1 (1-1) is better"
    assert pair.difference.low < -0.4 < pair.difference.high < 0
    assert pair.text in printed(partial(print_comparison, studies, [pair]))
    assert printed_values(comparison_reply(studies, [pair]))["comparison"]["differences"][0][
        "settled"
    ]


def test_splits_that_are_as_good_are_not_settled_and_every_pair_is_there(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, split, 1.0) for split in ("1-1", "2-1", "1-2")]
    _, pairs = compare_runs(runs)
    assert [pair.text for pair in pairs] == ["not settled"] * 3


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"tokens": "20k"}, "the same `tokens`"),
        ({"train": {"dropout": 0.1}}, "the same `train`"),
        ({"budgets": ["50k"]}, "a budget in common"),
    ],
)
def test_studies_that_measure_something_else_are_refused(
    tmp_path: Path, keys: dict[str, Any], words: str
) -> None:
    runs = [run_of(tmp_path, "1-1", 1.0), run_of(tmp_path, "2-1", 1.0, **keys)]
    with pytest.raises(ConfigError, match=words):
        compare_runs(runs)


def test_one_run_is_not_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two run folders"):
        compare_runs([run_of(tmp_path, "1-1", 1.0)])
