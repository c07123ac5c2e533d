"""Fathom in Python: a run folder as frames, figures and shapes; the same study, run from code."""

import math
import random
import re
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from nbformat import NotebookNode
from ray.tune.result import AUTO_RESULT_KEYS

from benchmarks.notebook import executed, kept
from fathom import ShapeSpace, Study, analyse, load, run
from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.optimum import Located
from fathom.search.export.best import read_best
from fathom.search.records import TrialSpec
from fathom.search.run_folder import RunFolderError
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import dump
from tests.support.dry_run import Simulation, scheduler, study


def grows(spec: TrialSpec, share: float) -> float:
    """The best depth grows with size: 3, 4.2 and 6 layers."""
    best = 3 * math.sqrt(spec.budget / 20_000)
    noise = random.Random(spec.trial).gauss(0, 0.002)
    return 2 + 0.2 * math.log(spec.shape.depth / best) ** 2 + 0.5 * (1 - share) + noise


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A finished search on three budgets without training, with a law."""
    confirm = study().confirm.model_copy(update={"depths": 4})
    config = study(budgets=(20_000, 40_000, 80_000), confirm=confirm)
    search = scheduler(config, tmp_path_factory.mktemp("runs") / config.study)
    Simulation(search, grows).run()
    search.folder.config.write_text(dump(config))
    return load(search.folder.path)


def test_a_frame_has_a_row_for_each_trial_with_the_columns_of_the_csv_file(found: Study) -> None:
    assert list(found.trials["trial"]) == [record.spec.trial for record in found.records]
    assert found.trials["loss_nats"].dtype == float
    assert {"budget", "depth", "d_model", "ff_ratio", "params_total"} <= {*found.trials.columns}
    assert len(found.curves) == sum(len(record.curve) for record in found.records)
    started, first = found.trials["started"][0], found.records[0]
    assert (started.timestamp(), str(started.tz)) == (pytest.approx(first.started), "UTC")
    assert found.curves["time"][0].timestamp() == pytest.approx(first.curve[0].time)
    optima = found.conclusion.optima
    assert list(found.optima["optimal_depth"]) == [optimum.optimal_depth for optimum in optima]
    assert list(found.optima["plateau"]) == [list(not_ruled_out(o)) for o in optima]
    assert found.tables["depths"].groupby("budget").size().min() >= 3
    assert all(isinstance(depths, list) for depths in found.tables["rungs"]["cut_depths"])
    with pytest.raises(KeyError, match=r"one of trials, curves, .*, got nope"):
        found.tables["nope"]


def test_the_best_shape_is_trained_and_exported_as_by_the_commands(
    found: Study, tmp_path: Path
) -> None:
    lines: list[str] = []

    weights = found.train("20k", tokens="4k", out=tmp_path / "trained", say=lines.append)
    file = found.export("20k", out=tmp_path / "best.yaml")
    folder = found.export("20k", format="hf", out=tmp_path / "hf", nearest=True)

    assert weights.exists()
    assert lines[-1] == f"weights in {weights}"
    assert read_best(file, None).shape == found.shape("20k")
    assert (folder / "README.md").exists()
    with pytest.raises(ConfigError, match="`--format` must be one of"):
        found.export("20k", format="onnx", out=tmp_path / "none")


def test_figures_can_be_shown_and_saved(found: Study, tmp_path: Path) -> None:
    figure = found.figures["depth-against-budget"]

    figure.savefig(tmp_path / "mine.png")

    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert {"loss-against-depth-20000", "learning-curves-80000"} <= {*found.figures}


def test_a_shape_is_named_by_its_budget_as_people_write_it(found: Study) -> None:
    assert found.shape("40k") == found.shape(40_000)
    assert found.shape("40k").params_non_embedding == pytest.approx(40_000, rel=0.005)
    for budget in ("30k", "many"):
        with pytest.raises(ConfigError, match=f"best shape, 20k, 40k, 80k, got {budget}"):
            found.shape(budget)


def test_a_study_says_what_it_plans_what_it_found_and_what_follows(
    found: Study, tmp_path: Path
) -> None:
    plan = found.plan()
    assert list(plan["budget"]) == [20_000, 40_000, 80_000]
    assert {"shapes", "depths", "trials", "tokens", "flops", "hours"} <= {*plan.columns}
    assert found.law == found.conclusion.laws[0]
    laws = found.conclusion.weighed_laws
    assert laws
    assert found.predict("1M") == laws.predict(1_000_000)
    assert found.predict("1M").extrapolated
    first, *answers = repr(found).splitlines()
    assert first == f"Study simulated in {found.folder.path}"
    assert answers[0].startswith("  20k parameters, ")
    with pytest.raises(RunFolderError, match="is not a run folder"):
        load(tmp_path)


def test_code_that_a_run_folder_names_is_imported_only_with_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_by_a_run.py").write_text("raise ValueError('it was run')\n")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    (folder / "state").mkdir(parents=True)
    keys = "objective: {name: 'named_by_a_run:Evil', context: 16}\n"
    (folder / "config.yaml").write_text(f"study: run\nbudgets: [20k]\n{keys}")

    with pytest.raises(ConfigError, match=r"names code, named_by_a_run:Evil.*trust=True"):
        load(folder).plan()
    with pytest.raises(ConfigError, match=r"names code, named_by_a_run:Evil.*trust=True"):
        run(folder / "config.yaml", runs=tmp_path)
    with pytest.raises(ValueError, match="it was run"):
        load(folder, trust=True).plan()


def test_a_run_without_any_trial_yet_has_empty_frames(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(dump(study()))

    empty = load(tmp_path)
    with pytest.raises(ConfigError, match="`budgets` is required"):
        run({"study": "none", "objective": "language"}, runs=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]

    assert empty.trials.empty
    assert empty.figures == {}
    assert repr(empty).endswith("no trial has ended")
    with pytest.raises(ConfigError, match="has no law: it takes three budgets"):
        empty.law  # noqa: B018


@pytest.mark.drill
def test_the_notebook_shows_again_what_it_keeps_but_for_numbers(tmp_path: Path) -> None:
    """Another Python has another text, its standard library, so other losses and trials."""
    now, then = (_shown(notebook) for notebook in (executed(tmp_path), kept()))

    kinds = [[[kind for kind, _ in cell] for cell in notebook] for notebook in (now, then)]
    assert kinds[0] == kinds[1]
    assert _headings(now) == _headings(then)
    assert sum(kind == "image/png" for cell in now for kind, _ in cell) == 2
    assert (tmp_path / "runs" / "tiny" / "report.html").exists()


def _shown(notebook: NotebookNode) -> list[list[tuple[str, str]]]:
    """Returns the results of each cell, (kind, text); without the progress, which has times."""
    results = [
        [out["data"] for out in cell.get("outputs", []) if out["output_type"] == "execute_result"]
        for cell in notebook.cells
    ]
    return [[(kind, data[kind]) for data in cell for kind in sorted(data)] for cell in results]


def _headings(cells: list[list[tuple[str, str]]]) -> list[list[str]]:
    """Returns the first line of each text, in words without their numbers."""
    texts = [text for cell in cells for kind, text in cell if kind == "text/plain"]
    return [re.sub("[0-9.]+", "", text.partition("\n")[0]).split() for text in texts]


def ray_result(depth: int, steps: int) -> SimpleNamespace:
    """What a trial of Ray's leaves: its own columns beside those of the training function."""
    space = ShapeSpace("1M", vocab_size=256)
    shape = space.shape(depth=depth, ff_ratio=3.0)
    ray_own = dict.fromkeys(set(AUTO_RESULT_KEYS) - {"training_iteration"}, 1.5)
    rows = [
        {
            **ray_own,
            "trial_id": "abc",
            "pid": depth,
            "hostname": f"node{depth}",
            "training_iteration": step,
            "tokens": 1000 * step,
            "config/depth": depth,
            "loss": 2 + 0.1 * math.log(depth / 6) ** 2 + 1 / step,
            **space.config(shape),
        }
        for step in range(1, steps + 1)
    ]
    config = {"depth": depth, "ff_ratio": shape.ff_ratio}
    return SimpleNamespace(config=config, metrics_dataframe=pd.DataFrame(rows) if rows else None)


def test_what_ray_s_own_tuner_leaves_is_analysed() -> None:
    depths = (2, 3, 4, 6, 8, 12, 16)
    stopped = [ray_result(depth, steps=2) for depth in (1, 24)]
    failed = SimpleNamespace(config={"depth": 5, "ff_ratio": 3.0}, metrics_dataframe=None)
    grid = [*(ray_result(depth, steps=10) for depth in depths), *stopped, failed]

    found = analyse(grid, noise=0.004)

    (optimum,) = found.optima
    assert isinstance(optimum, Located)
    assert optimum.budget == 1_000_000
    assert abs(optimum.optimal_depth - 6) <= 1
    assert optimum.interval[0] <= 6 <= optimum.interval[1]
    assert found.runs == len(depths) + len(stopped)
    assert "Ray's results" in found.label


def test_results_without_a_loss_are_refused_in_one_line(tmp_path: Path) -> None:
    config = {"depth": 2}
    silent = SimpleNamespace(config=config, metrics_dataframe=pd.DataFrame([{"accuracy": 1.0}]))
    for source in ([silent], [], tmp_path / "none.csv"):
        with pytest.raises(ValueError, match="must") as refusal:
            analyse(source)
        assert "\n" not in str(refusal.value)
