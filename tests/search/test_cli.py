"""The commands and their output: `search/cli.py` and its verbs, as a separate process."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from mlflow import MlflowClient

from fathom.objectives.contract import data_digest_of
from fathom.objectives.prepare import prepare
from fathom.search.records import Outcome
from fathom.search.run_folder import MARKER, RunFolder, read_records
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.keys.config import dump
from fathom.search.study.keys.groups import StoppingConfig
from tests.support.dry_run import Simulation, scheduler, slow_deep, study
from tests.support.markdown import blocks_of
from tests.support.places import ROOT

TINY = ROOT / "configs" / "tiny.yaml"
STOPPING = StoppingConfig(first_rung=0.25, eta=2, always_finish=0.25)
GOOD = """
study: good
objective: {name: language, corpus: stdlib, context: 32}
budgets: [20k, 40k, 80k]
count: non_embedding
tokens: 20k
space: {depth: [1, 6], n_heads: 2}
"""


def fathom(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "search", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def assert_user_error(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("fathom: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout.startswith("Study ") or not done.stdout
    assert done.stdout.count("\n") <= 3, "the steps before it"
    for word in words:
        assert word in done.stderr


BROKEN = {
    "unknown key": (GOOD + "trails: 3\n", ("`trails`", "`trials`")),
    "unknown key in a group": (GOOD.replace("n_heads", "n_head"), ("space.n_head", "n_heads")),
    "wrong type": (GOOD + "trials: many\n", ("trials", "many")),
    "impossible budget": (GOOD.replace("[20k, 40k, 80k]", "[100]"), ("100", "nearest budget")),
    "budget of words": (GOOD.replace("[20k", "[large"), ("budgets", "large")),
    "budgets descending": (GOOD.replace("[20k, 40k, 80k]", "[40k, 20k]"), ("ascend",)),
    "no budgets": (GOOD.replace("[20k, 40k, 80k]", "[]"), ("budgets",)),
    "a long path": (
        GOOD.replace("stdlib", "x" * 4000),
        ("corpus must be", "... ", "check the path"),
    ),
    "missing corpus": (GOOD.replace("stdlib", "./nowhere.txt"), ("nowhere.txt",)),
    "unknown corpus": (GOOD.replace("stdlib", "shakespear"), ("shakespear", "tiny_shakespeare")),
    "unknown tokenizer": (GOOD.replace("stdlib", "stdlib, tokenizer: words"), ("tokenizer",)),
    "contradictory ranges": (GOOD.replace("[1, 6]", "[6, 1]"), ("depth", "[6, 1]")),
    "depth zero": (GOOD.replace("[1, 6]", "[0, 6]"), ("depth", "0")),
    "negative tokens": (GOOD.replace("tokens: 20k", "tokens: -5"), ("tokens", "-5")),
    "two horizons": (GOOD + "tokens_per_parameter: 20\n", ("tokens_per_parameter", "keep one")),
    "post-norm under CompleteP": (GOOD + "model: {residual: post}\n", ("completep", "`mup`")),
    "odd heads": (GOOD.replace("n_heads: 2", "head_dim: 9"), ("head_dim", "9")),
    "a list": ("- study\n- good\n", ("mapping", "list")),
    "empty": ("", ("mapping", "empty")),
    "a tag that would run code": (GOOD + "seed: !!python/object/apply:os.getpid []\n", ("YAML",)),
    "not YAML": ("study: [", ("YAML",)),
    "a key twice": (GOOD + "study: again\n", ("study", "twice")),
    "a name that leaves the folder": (GOOD.replace("good", "../evil"), ("study", "../evil")),
    "the name of MLflow's file": (GOOD.replace("study: good", "study: mlflow.db"), ("`study`",)),
    "no count called that": (GOOD.replace("non_embedding", "all"), ("count", "all")),
    "rates without 1": (GOOD + "confirm: {rates: [0.5, 2]}\n", ("rates", "1")),
    "not a number": (GOOD + "train: {learning_rate: .nan}\n", ("learning_rate",)),
    "rung in the cool-down": (GOOD + "stopping: {first_rung: 0.9}\n", ("first_rung", "0.9")),
    "tracking address": (GOOD + "tracking: {uri: 'gopher://x'}\n", ("gopher",)),
    "optuna's address": (
        GOOD + "tracking: {optuna: 'mysql://x/y'}\n",
        ("tracking.optuna", "mysql"),
    ),
}
ADDRESSES = ("tracking address", "optuna's address")


# Reading the file is the same for both verbs; what `run` alone looks at is tried with `run`.
CASES = [("plan", name) for name in BROKEN if name not in ADDRESSES]
CASES += [("run", name) for name in ("missing corpus", "unknown corpus", *ADDRESSES)]


@pytest.mark.parametrize(("verb", "broken"), CASES)
def test_a_broken_study_is_one_line_status_2_and_nothing_written(
    tmp_path: Path, verb: str, broken: str
) -> None:
    text, words = BROKEN[broken]
    (tmp_path / "study.yaml").write_text(text)
    done = fathom(verb, "study.yaml", cwd=tmp_path)
    assert_user_error(done, *words)
    assert os.listdir(tmp_path) == ["study.yaml"]


def test_every_verb_of_a_study_takes_values_instead_of_the_files(tmp_path: Path) -> None:
    for verb in ("plan", "check", "doctor", "run", "ui"):
        file = ["--study", TINY] if verb == "ui" else [TINY]
        refused = fathom(verb, *file, "--set", "tokens=20k", "--set", "trials=0", cwd=tmp_path)
        assert_user_error(refused, "fathom: --set trials=0: `trials` must be at least 1, got 0")
    assert not os.listdir(tmp_path)
    planned = fathom("plan", TINY, "--set", "study=mine", "--set", "budgets=[30k]")
    assert planned.stdout.startswith("mine: ")
    assert " 30k " in planned.stdout


def test_each_mistake_of_a_study_file_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(GOOD.replace("[1, 6]", "[6, 1]") + "trails: 3\n")
    done = fathom("plan", "study.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert [line[:22] for line in done.stderr.splitlines()] == [
        "fathom: study.yaml:7: ",
        "fathom: study.yaml:8: ",
    ]


def test_a_study_file_that_is_not_there_or_not_text_is_a_users_error(tmp_path: Path) -> None:
    assert_user_error(fathom("plan", tmp_path / "none.yaml"), "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00study")
    assert_user_error(fathom("plan", tmp_path / "binary.yaml"), "binary.yaml")
    assert_user_error(fathom("plan", tmp_path), str(tmp_path))


def test_the_version_is_that_of_the_package() -> None:
    done = fathom("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"fathom {version('fathom-depth')}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan",), ("STUDY.yaml", "plan --help")),
        (("plan", "a.yaml", "b.yaml"), ("b.yaml",)),
        (("plan", "a.yaml", "--shape"), ("--shape", "--shapes")),
        (("plan", "a.yaml", "--price", "nan"), ("--price", "0")),
        (("plans",), ("plans",)),
        (("ui", "--port", "70000"), ("--port", "65535")),
        (("predict", "--params"), ("--params",)),
    ],
)
def test_a_command_line_that_is_not_understood_is_one_line(
    arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_user_error(fathom(*arguments), *words)


def test_ctrl_c_in_a_finaliser_is_not_lost() -> None:
    code = """
import signal, sys, time
from fathom.search import cli
class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def slow(**_):
    Dying()
    time.sleep(20)
cli.app = slow
cli.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (130, "fathom: interrupted\n")


def test_a_folder_of_runs_that_can_not_be_written_to_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for runs in ("file", "file/below"):
        refused = fathom("run", TINY, "--runs", runs, cwd=tmp_path)
        assert_user_error(refused, f"`--runs` must be a folder that can be written to, got {runs}")


def test_a_file_that_can_not_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    done = fathom("schema", "--out", "nowhere/schema.json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "fathom: No such file or directory: nowhere/schema.json\n"


@pytest.mark.parametrize("verb", ["export", "train"])
def test_a_folder_that_is_not_there_is_called_so(verb: str, tmp_path: Path) -> None:
    assert_user_error(fathom(verb, tmp_path / "nope"), "there is no", "nope", "name a run folder")


def test_a_folder_that_is_no_run_is_a_users_error(tmp_path: Path) -> None:
    assert_user_error(fathom("report", tmp_path), "config.yaml")
    assert_user_error(fathom("export", tmp_path), "is not a run folder")
    assert_user_error(fathom("predict", "--params", "1M", "--law", tmp_path), str(tmp_path))
    assert_user_error(fathom("train", tmp_path / "best.yaml"), "best.yaml")
    assert_user_error(fathom("predict", "--params", "huge"), "huge")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (("--help",), []),
        (("plan", str(TINY)), ["numpy"]),
        (("predict", "--params", "1B"), ["numpy", "scipy"]),
        (("export", "--help"), []),
    ],
)
def test_quick_verbs_import_no_framework(arguments: tuple[str, ...], needed: list[str]) -> None:
    code = (
        "import sys\n"
        "from fathom.search.cli import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "slow = {'torch', 'ray', 'mlflow', 'optuna', 'numpy', 'scipy'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == str(needed)


def test_plan_prints_the_contracts_json() -> None:
    plan = json.loads(fathom("plan", TINY, "--json", "--shapes").stdout)
    assert [entry["budget"] for entry in plan["budgets"]] == [8000, 12000, 20000]
    assert (plan["device"] in ("core", "GPU"), plan["cost"]) == (True, None)
    priced = json.loads(fathom("plan", TINY, "--json", "--price", "2.5").stdout)
    assert priced["cost"] == pytest.approx(2.5 * priced["device_hours"])
    keys = {"budget", "count", "tokens", "shapes", "depths", "worst_count_error", "trials"}
    for entry in plan["budgets"]:
        assert set(entry) == keys | {"epochs", "rungs", "flops", "hours", "step", "shape_list"}
        assert entry["step"]["memory"] > 0
        assert len(entry["shape_list"]) == entry["shapes"]
        for shape in entry["shape_list"]:
            error = abs(shape["params_non_embedding"] / entry["budget"] - 1)
            assert error <= entry["worst_count_error"] <= 0.005


def test_predict_prints_the_contracts_json() -> None:
    prediction = json.loads(fathom("predict", "--params", "174e9", "--json").stdout)
    assert set(prediction) == {"params", "law", "depth", "d_model", "interval", "extrapolated"}
    assert round(prediction["depth"]) == 80
    assert prediction["law"] == "levine2020"


def typed_in(page: Path) -> list[str]:
    """The blocks of shell that do not say why no test runs them."""
    return [own.text for own in blocks_of(page) if own.language == "sh" and not own.note]


TYPED = [page for page in sorted((ROOT / "docs").rglob("*.md")) if typed_in(page)]


def tour() -> list[str]:
    """The commands of the README's tour."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.split("## The tour")[1].split("```sh\n")[1].split("```")[0]
    return [line.split("#")[0].strip() for line in block.splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's tour has been taken, every command of it."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copytree(ROOT / "configs", folder / "configs")
    for command in tour():
        name, *arguments = shlex.split(command)
        assert name == "fathom"
        done = fathom(*arguments, cwd=folder)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert "Traceback" not in done.stderr
        assert done.stdout or "--out" in arguments, command
    return folder


def test_run_leaves_every_promised_file(finished: Path) -> None:
    run = finished / "runs" / "tiny"
    for name in ("config.yaml", "records.jsonl", "best.yaml", "report.html"):
        assert (run / name).stat().st_size > 0
    assert list((run / "figures").glob("*.png"))
    assert list((run / "figures").glob("*.svg"))
    assert (finished / "runs" / "mlflow.db").exists()
    assert [path.name for path in (run / "state" / "checkpoints").iterdir()] == [MARKER]


def test_the_same_command_again_runs_no_trial_twice(finished: Path) -> None:
    records = finished / "runs" / "tiny" / "records.jsonl"
    before = records.read_text()
    done = fathom("run", TINY, cwd=finished)
    assert done.returncode == 0
    assert "optimal depth" in done.stdout
    assert records.read_text() == before


def test_extending_a_search_without_failed_audits_changes_nothing(finished: Path) -> None:
    records = finished / "runs" / "tiny" / "records.jsonl"
    before = records.read_text()
    done = fathom("run", TINY, "--extend", cwd=finished)
    assert done.returncode == 0, done.stderr
    assert "Nothing to extend" in done.stdout
    assert "optimal depth" in done.stdout
    assert records.read_text() == before


def test_a_failed_audit_is_reported_with_its_remedy_which_is_to_extend(tmp_path: Path) -> None:
    """The first search is planted and has no checkpoints; the resumed trials are trained."""
    quick = study().objective.model_copy(update={"eval_tokens": 4_000})
    config = study(objective=quick, budgets=(20_000,), tokens=16_000, trials=16, stopping=STOPPING)
    folder = RunFolder(tmp_path / "runs" / config.study)
    folder.create()
    data = data_digest_of(prepare(config.objective))
    write_fingerprint(folder, fingerprint_of(config, data))
    planted = scheduler(config, folder.path)
    Simulation(planted, slow_deep).run()
    cut = {r.spec.trial for r in planted.records if r.outcome is Outcome.STOPPED}
    (tmp_path / "study.yaml").write_text(dump(config))

    told = fathom("run", "study.yaml", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "20k: stopping at" in told.stdout
    assert "`stopping." in told.stdout
    assert "`fathom run study.yaml --extend`" in told.stdout

    done = fathom("run", "study.yaml", "--extend", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"stopped trials resumed: {len(cut)}, {len(cut)} of them anew" in done.stdout
    assert "can't be trusted" not in done.stdout
    records = read_records(planted.folder.records)
    assert {r.spec.trial for r in records if r.outcome is not Outcome.FINISHED} == set()
    assert len({r.spec.trial for r in records}) == len(records)
    client = MlflowClient(f"sqlite:///{tmp_path}/runs/mlflow.db")
    experiment = client.get_experiment_by_name(config.study)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert len(runs) == len(records) + 3, "one a trial, and of budget, study and machine"


def test_another_study_of_the_same_name_is_refused(finished: Path) -> None:
    changed = finished / "changed.yaml"
    changed.write_text(TINY.read_text().replace("trials: 4", "trials: 5"))
    assert_user_error(fathom("run", changed, cwd=finished), "runs/tiny", "`trials` (4, not 5)")
    changed.write_text(TINY.read_text())
    refused = fathom("run", changed, "--set", "train.learning_rate=1", cwd=finished)
    assert_user_error(refused, "runs/tiny", "another `train.learning_rate` (0.001, not 1.0)")


def test_report_prints_the_contracts_json(finished: Path) -> None:
    done = fathom("report", "runs/tiny", "--json", cwd=finished)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    papers = {"crossings", "required_depths", "matched", "depth_metrics"}
    assert set(report) == {"study", "budgets", "law", "null_laws"} | papers
    expected = {
        *("budget", "count", "tokens", "optimal_depth", "interval", "plateau", "verdict"),
        *("shape", "loss", "trials"),
    }
    for entry in report["budgets"]:
        assert set(entry) >= expected
        assert set(entry["trials"]) >= {"finished", "stopped", "diverged", "failed"}


def test_an_exported_shape_has_been_trained_and_resumes(finished: Path) -> None:
    assert_user_error(fathom("export", "runs/tiny", "--budget", "7M", cwd=finished), "7M", "8k")
    assert (finished / "trained" / "weights.pt").exists()
    again = fathom("train", "best.yaml", cwd=finished)
    assert again.returncode == 0, again.stderr
    assert "100%" in again.stdout
    assert "Next: fathom export best.yaml --format hf --weights trained" in again.stdout


def test_a_shape_goes_to_another_framework_from_a_run_or_its_file(finished: Path) -> None:
    of_file = fathom("export", "best.yaml", "--format", "hf", "--out", "one", cwd=finished)
    assert of_file.returncode == 0, of_file.stderr
    assert "AutoModelForCausalLM.from_config" in of_file.stdout
    run = ("export", "runs/tiny", "--format", "hf", "--budget", "20k", "--out", "two")
    assert fathom(*run, cwd=finished).returncode == 0
    assert (finished / "two" / "config.json").exists()


def test_a_users_own_text_needs_only_its_path(tmp_path: Path) -> None:
    text = "".join(f"Line {i}: the {i * i} foxes; the {i} dogs.\n" for i in range(3000))
    (tmp_path / "my notes.txt").write_text(text)
    study = TINY.read_text().replace("stdlib", "my notes.txt").replace("[8k, 12k, 20k]", "[8k]")
    (tmp_path / "study.yaml").write_text(study)
    done = fathom("run", "study.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "8k" in done.stdout


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_the_commands_of_the_documentation_work(finished: Path, page: Path) -> None:
    """The commands run after the tour, as a reader types them; no search runs twice."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for commands in typed_in(page):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=finished,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stderr}"
        assert "Traceback" not in done.stderr
