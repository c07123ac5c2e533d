"""The command `analyse` on tables and folders in the layouts that people have."""

import csv
import json
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tests.support.command_line import here
from tests.support.places import SHARED_DATA
from tests.support.tables import DEPTHS, planted_loss, write_table

CASES = SHARED_DATA.parent / "cases"
RUNS = [(depth, seed) for depth in DEPTHS for seed in range(3)]
STEPS = (100, 200, 300)


def config(depth: int, seed: int) -> dict[str, Any]:
    return {"n_layer": depth, "params": 10_000_000, "seed": seed}


def curve(depth: int) -> list[float]:
    return [planted_loss(depth) + 30 / step - 0.1 for step in STEPS]


def object_of_runs(path: Path) -> None:
    runs = {f"r{d}_{s}": {"config": config(d, s), "val_loss": planted_loss(d)} for d, s in RUNS}
    path.write_text(json.dumps(runs, indent=2))


def histories(path: Path) -> None:
    def history(depth: int) -> list[dict[str, float]]:
        pairs = zip(STEPS, curve(depth), strict=True)
        return [{"step": step, "val_loss": loss} for step, loss in pairs]

    runs = {f"r{d}_{s}": {"config": config(d, s), "history": history(d)} for d, s in RUNS}
    path.write_text(json.dumps(runs))


def curves_in_an_array(path: Path) -> None:
    runs = [
        config(d, s) | {"val_loss": curve(d), "steps": STEPS, "train_loss": [9.0] * 9}
        for d, s in RUNS
    ]
    path.write_text(json.dumps({"made": "today", "runs": runs}, indent=2))


def columns(path: Path) -> None:
    rows = [config(d, s) | {"val_loss": planted_loss(d)} for d, s in RUNS]
    path.write_text(json.dumps({name: [row[name] for row in rows] for name in rows[0]}))


def columns_by_row(path: Path) -> None:
    rows = [config(d, s) | {"val_loss": planted_loss(d)} for d, s in RUNS]
    by_row = {name: {str(at): row[name] for at, row in enumerate(rows)} for name in rows[0]}
    path.write_text(json.dumps(by_row))


def objects_in_cells(path: Path) -> None:
    """As W&B's own script writes them, which calls Python's `str`."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "config", "summary"])
        for d, s in RUNS:
            summary = {"val_loss": planted_loss(d), "lr": None}
            writer.writerow([f"r{d}_{s}", str(config(d, s)), str(summary)])


def curves_in_cells(path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["depth", "params", "seed", "train_loss", "val_loss", "tokens_seen_val"])
        for d, s in RUNS:
            writer.writerow([d, "10M", s, [9.0, 8.0], json.dumps(curve(d)), list(STEPS)])


def markdown(path: Path) -> None:
    head = (
        "# Results\n\nIn words.\n\n| **layers** | params | seed | `val loss` |\n|:--|--:|---|--|\n"
    )
    rows = [f"| {d} | 10M | {s} | **{planted_loss(d):.4f}** |\n" for d, s in RUNS]
    path.write_text(head + "".join(rows) + "\nMore words.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")


def decimal_commas(path: Path) -> None:
    """Decimal commas between semicolons, as in most of Europe; the header stands there twice."""
    head = "n_layer;params;seed;Val loss (nats)\n"
    losses = {depth: f"{planted_loss(depth):.4f}".replace(".", ",") for depth in DEPTHS}
    rows = [f"{d};10.000.000;{s};{losses[d]}\n" for d, s in RUNS]
    path.write_text("\ufeff" + head + "".join(rows[:6]) + head + "".join(rows[6:]))


def decimal_points_after_semicolons(path: Path) -> None:
    rows = [f"{d};10,000,000;{s};{planted_loss(d):.3f}\n" for d, s in RUNS]
    path.write_text("n_layer;params;seed;val_loss\n" + "".join(rows))


def column_of_each_seed(path: Path) -> None:
    rows = [f"{d},10M," + ",".join(f"{planted_loss(d)}" for _ in range(3)) for d in DEPTHS]
    path.write_text("\n".join(["layers,params,loss_seed0,loss_seed1,loss_seed2", *rows]))


def history_of_lists(path: Path) -> None:
    rows = [
        {"cfg": config(d, s), "history": {"step": STEPS, "val_loss": curve(d)}} for d, s in RUNS
    ]
    path.write_text("\n".join(map(json.dumps, rows)))


def tables_of_runs(path: Path) -> None:
    """As Lightning writes them: losses of training and of validation in rows of their own."""
    for d, s in RUNS:
        folder = path / f"d{d}_seed{s}"
        folder.mkdir(parents=True)
        (folder / "hparams.yaml").write_text("params: 10000000\n")
        rows = "".join(f"{step},9,\n{step},,{x}\n" for step, x in zip(STEPS, curve(d), strict=True))
        (folder / "metrics.csv").write_text(f"step,train_loss,val_loss\n{rows}")
    (path / "README.txt").write_text("Our runs.")
    (path / "crashed.csv").write_text("")


def ray_results(path: Path) -> None:
    """As Ray Tune leaves them, without a column of steps; ASHA stopped the best depth's seed 0."""
    for d, s in RUNS:
        folder = path / "sweep" / f"train_1a2b_{d}{s}"
        folder.mkdir(parents=True)
        (folder / "params.json").write_text(json.dumps({"train_loop_config": config(d, s)}))
        values = [0.5] if (d, s) == (32, 0) else curve(d)
        results = [
            json.dumps({"val_loss": value, "training_iteration": at, "config": {"n_layer": d}})
            for at, value in enumerate(values, 1)
        ]
        (folder / "result.json").write_text("\n".join(results) + "\n")
        (folder / "progress.csv").write_text("val_loss\n9\n")
        (folder / "error.txt").write_text("step 1 loss 3")
        (folder / "events.out.tfevents.1.host").write_bytes(b"none")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("runs.json", object_of_runs),
        ("runs.json", histories),
        ("runs.json", curves_in_an_array),
        ("runs.json", columns),
        ("runs.json", columns_by_row),
        ("runs.csv", objects_in_cells),
        ("runs.csv", curves_in_cells),
        ("README.md", markdown),
        ("runs.csv", decimal_commas),
        ("runs.csv", decimal_points_after_semicolons),
        ("runs.csv", column_of_each_seed),
        ("runs.jsonl", history_of_lists),
        ("runs", tables_of_runs),
        ("ray_results", ray_results),
    ],
)
def test_a_layout_is_read_and_answered(
    tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path / name)
    done = here("analyse", tmp_path / name)

    assert (done.returncode, done.stderr) == (0, "")
    assert "15 runs of 5 shapes" in done.stdout
    assert " identified " in done.stdout
    stopped = "14 of 15 runs count: 1 have no loss near it (depth 32)" in done.stdout
    assert stopped == (write is ray_results)


def test_curves_without_steps_count_by_their_last_loss(tmp_path: Path) -> None:
    rows = [config(d, s) | {"val_loss": curve(d)} for d, s in RUNS]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = here("analyse", tmp_path / "runs.jsonl")

    assert "15 rows, 15 runs of 5 shapes" in done.stdout
    assert "no column has the steps of the curves in val_loss, so the last loss" in done.stdout


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "n_layer,loss\n2,3\n4,3\n", "b.csv": "n_layer,loss\n2,3\n"}, "several depths"),
        ({"10layer_d512.csv": "step,val_loss\n1,3\n", "a_4x5_d512.csv": "step,val_loss\n1,3\n"},
         "got depths 4, 10 from 12.6M to 31.5M"),
    ],
)  # fmt: skip
def test_a_folder_of_tables_without_depths_is_refused_in_a_line(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    done = here("analyse", tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_rows_that_say_they_gave_nothing_are_left_out(tmp_path: Path) -> None:
    names = ["n_layer", "params", "seed", "val_loss", "success", "remark"]
    rows = [[d, "10M", s, planted_loss(d), True, ""] for d, s in RUNS]
    rows[0][3:5], rows[1][5] = [1.0, False], "did not converge"
    done = here("analyse", write_table(tmp_path / "runs.csv", names, rows))

    assert "2 rows have not ended, by their success and remark: left out" in done.stdout
    assert " identified " in done.stdout


@pytest.mark.parametrize(
    ("lost", "remedy"),
    [
        (b'{"op_code":7,"worker{"op_code":8}\n\n', "drop them: `sed '3d;4d' "),
        (b'{"op_code":4,"worker{"op_code":7}\n', "restore it from a copy"),
        (b'ker_id":"w"}\n', "restore it from a copy"),
    ],
)
def test_a_torn_journal_is_refused_with_its_lines(tmp_path: Path, lost: bytes, remedy: str) -> None:
    """A line that made a trial is not to be dropped, as later ones count on its number."""
    path = tmp_path / "optuna.log"
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend(str(path))))
    for _ in range(2):
        study.add_trial(optuna.trial.create_trial(value=3.0))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lost, *lines[2:]]))
    done = here("analyse", path)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{path}:3: lines must be JSON, got others (3" in done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("02-snimu-curves-in-cells/runs_head.csv", "got depth 16 alone"),
        ("08-folder-of-csv-curves/results", "equal seconds"),
        ("08-folder-of-csv-curves/results", "one depth (10 at 31.5M, which has the lowest loss)"),
        ("08-folder-of-csv-curves/results", "best size 31M [31M-31M], edge"),
        ("08-folder-of-csv-curves/results/*.csv", "best size 31M [31M-31M], edge"),
        ("11-olmo-ladder-without-depth", "must have a column that is the depth"),
        ("19-ray-tune-results-folder/ray_results/depth_sweep", "13 of 15 runs count"),
        ("19-ray-tune-results-folder/ray_results", " identified "),
        ("37-wandb-json-cell-and-markdown/wandb_json_cell.csv", " insufficient "),
        ("37-wandb-json-cell-and-markdown/table.md", " insufficient "),
        ("13-senpai-not-converged/grid.csv", "2 rows have not ended, by their vs_baseline"),
        ("14-accuracy-by-depth/espnet.csv", "must have a column that is the loss"),
        ("14-accuracy-by-depth/espnet_named_value.csv", "if more is better, --maximise"),
        ("21-optuna-journal-torn/torn.log", "torn.log:196: lines must be JSON, got others"),
        ("21-optuna-journal-torn/torn_at_end.log", "1 of 15 trials without a final loss"),
        ("21-optuna-journal-torn/two_left_running.log", "left out (2 running)"),
    ],
)
def test_a_case_of_other_people_is_answered_or_refused_in_a_line(source: str, answer: str) -> None:
    if not CASES.is_dir():
        pytest.skip("the cases of other people are not beside the checkout")
    done = here("analyse", CASES / source)

    assert answer in done.stdout + done.stderr
    assert done.returncode == (0 if done.stdout else 2)
    if done.returncode:
        assert done.stderr.count("\n") == 1
        assert len(done.stderr.replace(f"{CASES}/", "")) <= 300


def test_a_study_of_optuna_that_maximises_is_answered_with_its_highest(tmp_path: Path) -> None:
    path = tmp_path / "optuna.log"
    storage = JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, direction="maximize")
    for depth in (2, 4, 6, 8, 12, 16):
        for seed in range(2):
            value = 70 - log(depth / 6) ** 2 + 0.02 * (-1) ** (seed + depth // 4)
            attributes = {"n_layer": depth, "params": 10**7, "seed": seed}
            study.add_trial(optuna.trial.create_trial(value=value, user_attrs=attributes))
    done = here("analyse", path, "--json")

    [answer] = json.loads(done.stdout)["answers"]
    assert answer["unit"]["maximised"]
    assert 5 <= answer["answer"]["depth"] <= 7
    assert answer["answer"]["loss"] == pytest.approx(70, abs=0.1)
