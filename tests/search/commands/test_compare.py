"""`fathom compare`: studies of other data, training or splits by best depths and best losses."""

import json
from functools import partial
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import pytest

from fathom.search.commands.compare import comparison_reply, print_comparison
from fathom.search.conclusion.comparison import ComparedStudies, compare_runs
from fathom.search.record_json import to_json
from fathom.search.records import CurvePoint, Outcome, Report, Stage, TrialRecord, TrialSpec
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import dump, parse
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from tests.support.command_line import here
from tests.support.contract import printed_values
from tests.support.logs import write_sealed
from tests.support.reporting import printed
from tests.support.training import record_of


def run_of(folder: Path, split: str, best: float, *, best_depth: int = 4, **keys: Any) -> Path:
    """A run folder whose depths lose more, the further they are from the best one."""
    values = {
        "study": f"s{split}",
        "objective": {"name": "tests.support.reversal:Reversal", "context": 8},
        "budgets": ["40k"],
        "tokens": "10k",
        "space": {"split": split, "depth": [2, 9], "n_heads": 2},
    } | keys
    config = parse(json.dumps(values))
    records: list[TrialRecord] = []
    for budget in expand_budgets(config):
        shapes = {shape.depth: shape for shape in feasible_shapes(config, budget, 10)}
        for (depth, shape), seed in product(shapes.items(), range(2)):
            name = f"{budget.label}-confirm-{len(records):03}"
            spec = TrialSpec(
                trial=name, study=config.study, stage=Stage.CONFIRM, budget=budget.params,
                count=config.count, horizon_tokens=budget.tokens, shape=shape, seed=seed,
                learning_rate=config.train.learning_rate, rate_scale=1.0, prunable=False,
            )  # fmt: skip
            loss = best + 0.2 * log(depth / best_depth) ** 2 + 0.002 * seed
            point = CurvePoint(
                step=budget.steps, tokens=budget.tokens, loss=loss, train_loss=loss,
                train_seconds=1.0, time=1.0,
            )  # fmt: skip
            report = Report(points=(point,), outcome=Outcome.FINISHED)
            records.append(record_of(spec, report))
    path = folder / config.study
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(dump(config))
    write_sealed(path / "records.jsonl", map(to_json, records))
    return path


def test_a_split_that_is_far_better_is_called_so(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "1-1", 1.0), run_of(tmp_path, "2-1", 1.4)]
    found = compare_runs(runs)
    [pair] = found.pairs
    assert [study.best[40_000].depth for study in found.studies] == [4, 4]
    assert pair.losses_text == "s1-1 (1-1) is better"
    assert pair.losses is not None
    assert pair.losses.low < -0.4 < pair.losses.high < 0
    assert found.differing == {"space.split": ("1-1", "2-1")}
    assert pair.losses_text in printed(partial(print_comparison, found))
    assert stated(found)["differences"][0]["settled"]


def test_splits_that_are_as_good_are_not_settled_and_every_pair_is_there(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, split, 1.0) for split in ("1-1", "2-1", "1-2")]
    pairs = compare_runs(runs).pairs
    assert [pair.losses_text for pair in pairs] == ["not settled"] * 3


def test_a_best_depth_that_differs_is_told_with_its_price_in_the_other_study(
    tmp_path: Path,
) -> None:
    runs = [
        run_of(tmp_path, "1-1", 1.0, study="a", best_depth=3),
        run_of(tmp_path, "1-1", 1.0, study="b", best_depth=6, train={"dropout": 0.1}),
    ]
    found = compare_runs(runs)
    [pair] = found.pairs
    assert pair.depths is not None
    assert 1 < pair.depths.ratio.low < 2 < pair.depths.ratio.high
    assert pair.depths_text == "deeper in b (1-1)"
    cost = pair.depths.first_in_other
    assert cost is not None
    assert cost.depth == 4, "3 layers have no halves of whole layers"
    assert cost.nats == pytest.approx(0.2 * log(6 / 4) ** 2, abs=0.02)
    assert found.differing == {"train.dropout": ("default", "0.1")}
    ratio = stated(found)["depths"][0]
    assert ratio["settled"]
    assert ratio["costs"][0] == cost.nats
    text = printed(partial(print_comparison, found))
    assert "deeper in b" in text
    assert "train.dropout" in text


def test_the_same_best_depth_serves_both(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "1-1", 1.0, study=name) for name in "ab"]
    found = compare_runs(runs)
    assert found.pairs[0].depths_text == "either depth serves both"
    assert "the same depth" in printed(partial(print_comparison, found))
    assert not found.differing


def test_over_several_budgets_the_ratio_is_known_better(tmp_path: Path) -> None:
    several = {"budgets": ["40k", "80k"]}
    runs = [
        run_of(tmp_path, "1-1", 1.0, study="a", best_depth=4, **several),
        run_of(tmp_path, "1-1", 1.0, study="b", best_depth=5, **several),
    ]
    found = compare_runs(runs)
    [together] = found.together
    assert together.budgets == (40_000, 80_000)
    wide = [pair.depths.ratio for pair in found.pairs if pair.depths]
    assert together.ratio.low >= min(ratio.low for ratio in wide)
    assert together.ratio.high <= max(ratio.high for ratio in wide)
    assert stated(found)["depths"][-1]["budgets"] == [40_000, 80_000]
    assert "40k, 80k together" in printed(partial(print_comparison, found))


def test_a_study_without_a_best_depth_inside_its_range_is_named(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path, "1-1", 1.0, study="a"),
        run_of(tmp_path, "1-1", 1.0, study="b", best_depth=20),
    ]
    [pair] = compare_runs(runs).pairs
    assert pair.depths is None
    assert pair.depths_text == "not settled: b (1-1) is edge"


def test_studies_of_one_name_are_called_by_their_folders(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / name, "1-1", 1.0) for name in "ab"]
    names = [study.name for study in compare_runs(runs).studies]
    assert names == [str(run) for run in runs]


def test_other_data_have_no_difference_of_losses(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path, "1-1", 1.0, study="a"),
        run_of(
            tmp_path, "1-1", 3.0, study="b",
            objective={"name": "tests.support.reversal:Reversal", "context": 9},
        ),
    ]  # fmt: skip
    found = compare_runs(runs)
    assert found.pairs[0].losses is None
    assert found.pairs[0].depths is not None
    assert stated(found)["no_differences"] == "the studies differ in objective.context"
    text = printed(partial(print_comparison, found))
    assert "Best losses are not compared: the studies differ in objective.context." in text
    assert "best losses differ?" not in text


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"count": "non_embedding"}, "the same `count`"),
        ({"budgets": ["50k"]}, "share a budget"),
    ],
)
def test_studies_whose_sizes_are_others_are_refused(
    tmp_path: Path, keys: dict[str, Any], words: str
) -> None:
    runs = [run_of(tmp_path, "1-1", 1.0), run_of(tmp_path, "2-1", 1.0, **keys)]
    with pytest.raises(ConfigError, match=words):
        compare_runs(runs)


def test_the_page_has_the_tables_and_a_sounding_of_each_study(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "1-1", 1.0, study=name) for name in "ab"]
    done = here("compare", *runs, "--report", tmp_path / "page")
    page = tmp_path / "page" / "comparison.html"
    assert done.returncode == 0
    assert f"Report      {page}" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert text.count('class="wide sounding"') == 2
    assert ": a (1-1)</h3>" in text
    assert "Do the best depths differ?" in text
    assert "Trained on" not in text, "that handle is of horizons"


def test_a_file_in_the_place_of_the_page_is_refused(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "1-1", 1.0, study=name) for name in "ab"]
    taken = tmp_path / "page"
    taken.write_text("mine")
    done = here("compare", *runs, "--report", taken)
    assert done.returncode == 2
    assert "`--report` must be a folder" in done.stderr
    assert taken.read_text() == "mine"


def stated(found: ComparedStudies) -> dict[str, Any]:
    """What programs read of a comparison."""
    values: dict[str, Any] = printed_values(comparison_reply(found))["comparison"]
    return values


def test_one_run_is_not_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two run folders"):
        compare_runs([run_of(tmp_path, "1-1", 1.0)])
