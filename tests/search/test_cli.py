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
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.contract.exit_status import STATUS
from fathom.search.records import Outcome
from fathom.search.run_folder import MARKER, RunFolder, read_records
from fathom.search.study.file.study_file import dump
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.keys.groups import StoppingConfig
from tests.support.command_line import Done, assert_refused, fathom, here
from tests.support.contract import valid
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


TEXT = "objective: {name: language, corpus: stdlib, context: 32}"
TOKENS = "objective: {name: tokens, train: ids.bin, vocabulary: 9, context: 32}"
EXTERNAL = """
objective: {name: external, vocabulary: 256, context: 32}
train: {command: [python, train.py, "{depth}", "{d_model}", "{folder}"], batch_size: 4}
"""

BROKEN = {
    "unknown key": ("plan", GOOD + "trails: 3\n", "did you mean `trials`?"),
    "impossible budget": ("plan", GOOD.replace("[20k, 40k, 80k]", "[100]"), "nearest budget"),
    "a long path": ("plan", GOOD.replace("stdlib", "x" * 4000), " ... "),
    "missing corpus": ("run", GOOD.replace("stdlib", "./nowhere.txt"), "nowhere.txt"),
    "missing tokens": ("plan", GOOD.replace(TEXT, TOKENS), "a file, a folder or a glob"),
    "a check of a command": ("check", GOOD.replace(TEXT, EXTERNAL), "has a `train.command`"),
    "a tag that would run code": ("plan", GOOD + "seed: !!python/name:os.getpid\n", "YAML"),
    "empty": ("plan", "", "it is empty"),
    "tracking address": ("run", GOOD + "tracking: {uri: 'gopher://x'}\n", "gopher"),
}


@pytest.mark.parametrize(("verb", "text", "word"), BROKEN.values(), ids=BROKEN)
def test_a_broken_study_is_one_line_status_2_and_nothing_written(
    tmp_path: Path, verb: str, text: str, word: str
) -> None:
    (tmp_path / "study.yaml").write_text(text)
    assert_refused(here(verb, "study.yaml", cwd=tmp_path), word)
    assert os.listdir(tmp_path) == ["study.yaml"]


def test_a_process_of_its_own_ends_with_that_status_and_line(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(GOOD + "trails: 3\n")
    assert_refused(fathom("run", "study.yaml", cwd=tmp_path), "`trails`", "`trials`")
    assert os.listdir(tmp_path) == ["study.yaml"]


def test_every_verb_of_a_study_takes_values_instead_of_the_files(tmp_path: Path) -> None:
    for verb in ("plan", "check", "doctor", "run", "ui"):
        file = ["--study", TINY] if verb == "ui" else [TINY]
        refused = here(verb, *file, "--set", "tokens=20k", "--set", "trials=0", cwd=tmp_path)
        assert_refused(refused, "fathom: --set trials=0: `trials` must be at least 1, got 0")
    assert not os.listdir(tmp_path)
    planned = here("plan", TINY, "--set", "study=mine", "--set", "budgets=[30k]")
    assert planned.stdout.startswith("mine: ")
    assert " 30k " in planned.stdout


def test_each_mistake_of_a_study_file_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(GOOD.replace("[1, 6]", "[6, 1]") + "trails: 3\n")
    done = here("plan", "study.yaml", cwd=tmp_path)
    places = [line.split(": ")[:2] for line in done.stderr.splitlines()]
    assert done.returncode == 2
    assert places == [["fathom", "study.yaml:7"], ["fathom", "study.yaml:8"]]


def test_the_version_is_that_of_the_package() -> None:
    done = here("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"fathom {version('fathom-depth')}\n"


REFUSED = (
    ("plan", "plan --help"),
    ("plan a.yaml b.yaml", "b.yaml"),
    ("plan a.yaml --shape", "--shapes"),
    ("plan a.yaml --price nan", "--price"),
    ("plan none.yaml", "none.yaml"),
    ("plan binary", "binary"),
    ("plan .", "Is a directory"),
    ("plans", "plans"),
    ("ui --port 70000", "65535"),
    ("predict --params", "--params"),
    ("predict --params huge", "huge"),
    ("predict --params 1M --law .", "a run folder, or the JSON of `fathom analyse`, got ."),
    (f"run {TINY} --runs binary", "must be a folder that can be written to, got binary"),
    (f"run {TINY} --runs binary/below", "that can be written to, got binary/below"),
    ("report .", "config.yaml"),
    ("export .", "is not a run folder"),
    ("export nope", "there is no nope"),
    ("tokenize none --tokenizer bytes --out made", "SOURCE must"),
    ("train nope", "name a run folder"),
    ("train best.yaml", "best.yaml"),
)


@pytest.mark.parametrize(("command", "words"), REFUSED)
def test_a_command_that_can_not_be_done_is_one_line_and_writes_nothing(
    command: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00study")
    assert_refused(here(*shlex.split(command), cwd=tmp_path), words)
    assert os.listdir(tmp_path) == ["binary"]


def python(code: str, *arguments: str) -> Done:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


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
    done = python(code)
    assert (done.returncode, done.stderr) == (130, "fathom: interrupted\n")


def test_ctrl_c_while_the_program_is_imported_is_one_line() -> None:
    code = """
import signal, sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
from fathom.__main__ import main
main()
"""
    done = python(code)
    assert (done.returncode, done.stderr) == (130, "fathom: interrupted\n")


@pytest.mark.parametrize("uri", ["htp//nowhere", "htp://x", "sqlite://x", "file:///x", "http:///x"])
def test_a_plan_refuses_a_store_that_no_search_could_write_to(uri: str, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD + f"tracking: {{uri: '{uri}'}}\n")
    assert_refused(here("plan", "good.yaml", cwd=tmp_path), "`tracking.uri` must be", uri)


def test_a_file_that_can_not_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    done = here("schema", "--out", "nowhere/schema.json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "fathom: No such file or directory: nowhere/schema.json\n"


@pytest.mark.parametrize("columns", ["60", "100"])
def test_a_flag_has_no_type_in_the_help(columns: str) -> None:
    text = fathom("run", "--help", COLUMNS=columns).stdout
    assert "--extend" in text
    assert "bool" not in text.lower()
    assert "<float" in text.lower() or "FLOAT" in text, "an option with a value has one"


def test_predict_and_plan_print_the_contracts_json() -> None:
    said = valid(json.loads(here("predict", "--params", "174e9", "--json").stdout))
    prediction = said["size"]["prediction"]
    assert set(prediction) == {
        *("params", "tokens", "law", "depth", "d_model", "interval", "extrapolated")
    }
    assert (round(prediction["depth"]), prediction["law"]) == (80, "levine2020")
    plan = json.loads(here("plan", TINY, "--json", "--shapes").stdout)
    valid(plan)
    assert [entry["question"]["budget"] for entry in plan["answers"]] == [8000, 12000, 20000]
    plan = plan["plan"]
    assert (plan["device"] in ("core", "GPU"), plan["cost"]) == (True, None)
    priced = json.loads(here("plan", TINY, "--json", "--price", "2.5").stdout)["plan"]
    assert priced["cost"] == pytest.approx(2.5 * priced["device_hours"])
    keys = {"budget", "count", "tokens", "shapes", "depths", "worst_count_error", "trials"}
    keys |= {"horizon", "epochs", "rungs", "flops", "hours", "step", "shape_list"}
    keys |= {"train_flops", "train_seconds", "tokens_each"}
    for entry in plan["budgets"]:
        assert set(entry) == keys
        assert entry["step"]["memory"] > 0
        assert len(entry["shape_list"]) == entry["shapes"]
        for shape in entry["shape_list"]:
            error = abs(shape["params_non_embedding"] / entry["budget"] - 1)
            assert error <= entry["worst_count_error"] <= 0.005


def typed_in(page: Path) -> list[str]:
    """The blocks of shell that do not say why no test runs them."""
    return [block.text for block in blocks_of(page) if block.language == "sh" and not block.note]


FIRST_SCREEN = "index.md"
"""The README's, which `tests/docs/test_index.py` runs."""
TYPED = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if typed_in(page) and page.name != FIRST_SCREEN
]


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
        done = here(*arguments, cwd=folder)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        assert done.stdout or "--out" in arguments, command
    return folder


def test_run_leaves_every_promised_file(finished: Path) -> None:
    run = finished / "runs" / "tiny"
    for name in ("config.yaml", "records.jsonl", "best.yaml", "report.html"):
        assert (run / name).stat().st_size > 0
    assert {".png", ".svg"} <= {path.suffix for path in (run / "figures").iterdir()}
    assert (finished / "runs" / "mlflow.db").exists()
    assert [path.name for path in (run / "state" / "checkpoints").iterdir()] == [MARKER]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        pytest.param((), "", marks=pytest.mark.drill),
        (("--extend",), "Nothing to extend"),
    ],
)
def test_the_same_command_again_runs_no_trial_twice(
    finished: Path, option: tuple[str, ...], words: str
) -> None:
    records = finished / "runs" / "tiny" / "records.jsonl"
    before = records.read_text()
    done = here("run", TINY, *option, cwd=finished)
    assert done.returncode == 0, done.stderr
    assert "optimal depth" in done.stdout
    assert words in done.stdout
    assert records.read_text() == before


@pytest.mark.siege
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
    assert f"stopped trials resumed: {len(cut)}, {len(cut)} from the start" in done.stdout
    assert "can't be trusted" not in done.stdout
    records = read_records(planted.folder.records)
    # At another learning rate a training may diverge, on one machine and not on another.
    assert {r.outcome for r in records} <= {Outcome.FINISHED, Outcome.DIVERGED}
    assert len({r.spec.trial for r in records}) == len(records)
    client = MlflowClient(f"sqlite:///{tmp_path}/runs/mlflow.db")
    experiment = client.get_experiment_by_name(config.study)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.status for run in runs} <= {"FINISHED", "FAILED"}
    assert len(runs) == len(records) + 3, "one a trial, and of budget, study and machine"


def test_another_study_of_the_same_name_is_refused(finished: Path) -> None:
    changed = finished / "changed.yaml"
    changed.write_text(TINY.read_text().replace("trials: 4", "trials: 5"))
    assert_refused(here("run", changed, cwd=finished), "runs/tiny", "`trials` (4, not 5)")
    changed.write_text(TINY.read_text())
    refused = here("run", changed, "--set", "train.learning_rate=1", cwd=finished)
    assert_refused(refused, "runs/tiny", "another `train.learning_rate` (0.001, not 1.0)")


def test_report_prints_the_contracts_json(finished: Path) -> None:
    done = here("report", "runs/tiny", "--json", "--exit-verdict", cwd=finished)
    report = valid(json.loads(done.stdout))
    assert report["command"] == "report"
    for entry in report["answers"]:
        assert entry["question"]["run"] == "runs/tiny"
        assert sum(entry["evidence"]["trials"].values()) > 0
    worst = max(STATUS[Kind(entry["verdict"]["kind"])] for entry in report["answers"])
    assert done.returncode == worst, done.stderr


def test_an_exported_shape_has_been_trained_and_resumes(finished: Path) -> None:
    assert_refused(here("export", "runs/tiny", "--params", "7M", cwd=finished), "7M", "8k")
    assert (finished / "trained" / "weights.pt").exists()
    again = here("train", "best.yaml", cwd=finished)
    assert again.returncode == 0, again.stderr
    assert "100%" in again.stdout
    assert "Next: fathom export best.yaml --format hf --weights trained" in again.stdout


def test_a_shape_goes_to_another_framework_from_a_run_or_its_file(finished: Path) -> None:
    of_file = here("export", "best.yaml", "--format", "hf", "--out", "one", cwd=finished)
    assert of_file.returncode == 0, of_file.stderr
    assert "AutoModelForCausalLM.from_config" in of_file.stdout
    run = ("export", "runs/tiny", "--format", "hf", "--params", "20k", "--out", "two")
    assert here(*run, cwd=finished).returncode == 0
    assert (finished / "two" / "config.json").exists()


@pytest.mark.drill
def test_a_users_own_text_needs_only_its_path(tmp_path: Path) -> None:
    text = "".join(f"Line {i}: the {i * i} foxes; the {i} dogs.\n" for i in range(3000))
    (tmp_path / "my notes.txt").write_text(text)
    study = TINY.read_text().replace("stdlib", "my notes.txt").replace("[8k, 12k, 20k]", "[8k]")
    (tmp_path / "study.yaml").write_text(study)
    done = fathom("run", "study.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "8k" in done.stdout


@pytest.mark.drill
@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_the_commands_of_the_documentation_work(finished: Path, page: Path) -> None:
    """The commands run after the tour, as a reader types them; no search runs twice."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for commands in typed_in(page):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands], cwd=finished, capture_output=True,
            env=os.environ | {"PATH": path}, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{commands}\n{done.stderr}"
        assert "Traceback" not in done.stderr
