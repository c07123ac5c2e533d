"""Damaged study files and run folders give an answer or one line, never a traceback."""

import io
import json
import os
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest

from fathom.search.cli import main
from fathom.search.json_lines import append_line
from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder, read_records
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.source import MOST_PROBLEMS
from fathom.search.study.file.study_file import dump, load
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.keys.groups import StoppingConfig
from tests.support.command_line import run as run_program
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.logs import lines_of, write_sealed
from tests.support.mutations import damage_run, mutated_study
from tests.support.places import ROOT

MOST_LINES = {1: 1, 2: MOST_PROBLEMS + 1}
"""By exit status: what the machine refuses, and the mistakes of a study file."""


@dataclass(frozen=True)
class Answer:
    """The exit status and output of a command."""

    status: object
    output: str
    complaint: str

    @property
    def fault(self) -> str:
        """The fault of the output; empty if it is an answer or a line for each mistake."""
        lines = self.complaint.splitlines()
        if self.status in (None, 0):
            noted = all(line.startswith("fathom: the answer for") for line in lines)
            return "" if noted else f"complained of nothing: {lines}"
        if self.status not in (1, 2):
            return f"status {self.status}"
        plain = all(line.startswith("fathom: ") and len(line) < 1000 for line in lines)
        plain = plain and 1 <= len(lines) <= MOST_LINES[self.status]
        return "" if plain else f"status {self.status} and {self.complaint!r}"


def fathom(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Answer:
    """The command in this process; an exception that it lets through is its status."""
    monkeypatch.setattr(sys, "argv", ["fathom", *arguments])
    output, complaint = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    status: object = None
    with redirect_stdout(output), redirect_stderr(complaint):
        try:
            main()
        except SystemExit as end:
            status = end.code
        except Exception as error:  # noqa: BLE001 - a traceback is what is looked for
            status = repr(error)
        output.flush()
    return Answer(status, output.buffer.getvalue().decode(), complaint.getvalue())


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Every path below a folder; None for what is no regular file."""
    return {
        path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))
    }


def seeds(few: int, many: int) -> pytest.MarkDecorator:
    """Few seeds decide on a change, and the others are for the siege."""
    return pytest.mark.parametrize(
        "seeds", [range(few), pytest.param(range(few, many), marks=pytest.mark.siege)], ids=len
    )


@seeds(100, 300)
def test_mutated_studies_are_planned_or_refused_in_a_line_for_each_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    shipped = [path.read_text(encoding="utf-8") for path in (ROOT / "configs").glob("*.yaml")]
    sources = [*sorted(shipped), dump(load(ROOT / "configs" / "tiny.yaml"))]
    monkeypatch.chdir(tmp_path)
    answers, faults = Counter[object](), {}
    for seed in seeds:
        content = mutated_study(sources, seed)
        Path("study.yaml").write_bytes(content)
        answer = fathom(monkeypatch, "plan", "study.yaml")
        answers[answer.status] += 1
        if answer.fault:
            faults[seed] = answer.fault
        assert contents(tmp_path) == {tmp_path / "study.yaml": content}, seed
    assert not faults
    assert answers[2] > len(seeds) / 2
    assert answers[0] > len(seeds) / 100


@pytest.fixture(scope="module")
def damageable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a search, as a kill leaves it, with an earlier report: `runs/simulated`."""
    runs = tmp_path_factory.mktemp("damageable") / "runs"
    config = study(
        budgets=(20_000, 40_000, 80_000), stopping=StoppingConfig(first_rung=0.25, eta=2)
    )
    folder = RunFolder(runs / config.study)
    folder.create()
    write_fingerprint(folder, fingerprint_of(config, data=""))
    search = scheduler(config, folder.path)
    Simulation(search).run(events=120)
    (runs.parent / "study.yaml").write_text(dump(config))
    search.folder.config.write_text(dump(config))
    search.folder.seconds.write_text("60.0\n")
    for trial in (*search.live, "foreign"):
        search.folder.checkpoint(trial).write_bytes(b"PK\3\4 half a checkpoint")
    (search.folder.path / "notes.txt").write_text("mine")
    return runs.parent


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fathom run` and `report` without Ray, training, MLflow and figures; `run` is cut short."""

    def simulate(scheduler: Scheduler, *_: object) -> None:
        Simulation(scheduler).run(events=5)

    objective = SimpleNamespace(vocab_size=256)
    monkeypatch.setattr("fathom.search.pipeline.run_trials", simulate)
    monkeypatch.setattr("fathom.search.pipeline.prepare", lambda *_: objective)
    monkeypatch.setattr("fathom.search.cluster.session.ray_session.start_ray", lambda *_: None)
    monkeypatch.setattr("fathom.search.pipeline.start_ray", lambda *_: None)
    monkeypatch.setattr(
        "fathom.search.pipeline.settled_resources", lambda config, *_: config.resources
    )
    for place in ("pipeline", "tracking.writing.publishing"):
        monkeypatch.setattr(f"fathom.search.{place}.Tracker", Nowhere)
    monkeypatch.setattr("fathom.search.report.pages.writer.make_charts", lambda *_: ())


@pytest.fixture
def simulated(untrained: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, and `run` goes on to its answer."""

    def simulate(scheduler: Scheduler, *_: object) -> None:
        Simulation(scheduler).run()

    monkeypatch.setattr("fathom.search.pipeline.run_trials", simulate)


class Nowhere:
    """A tracker that writes nothing."""

    def __init__(self, _: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None


VERBS = (
    ("report", "runs/simulated"),
    ("plan", "runs/simulated/config.yaml"),
    ("export", "runs/simulated", "--params", "20k"),
    ("predict", "--law", "runs/simulated"),
    ("run", "study.yaml"),
)


@seeds(6, 100)
def test_damaged_run_folders_are_read_or_refused_in_one_line(
    damageable: Path, untrained: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    monkeypatch.chdir(damageable)
    assert fathom(monkeypatch, "report", "runs/simulated").fault == ""
    answers, faults = Counter[object](), {}
    for seed in seeds:
        here, outside = tmp_path / f"{seed}", tmp_path / f"{seed}-outside"
        shutil.copytree(damageable, here)
        outside.mkdir()
        monkeypatch.chdir(here)
        folder = RunFolder(here / "runs" / "simulated")
        what = damage_run(folder.path, outside, seed)
        lines = whole_lines(folder.records)
        kept = contents(outside)
        for verb in VERBS:
            answer = fathom(monkeypatch, *verb)
            answers[answer.status] += 1
            if answer.fault:
                faults[seed, what, verb[0]] = answer.fault
        assert whole_lines(folder.records)[: len(lines)] == lines, (seed, what)
        assert contents(outside) == kept, (seed, what)
        assert (folder.path / "notes.txt").read_text() == "mine"
        shutil.rmtree(here)
    assert not faults
    assert min(answers[0], answers[2]) > len(seeds) / 2


@pytest.fixture
def run(damageable: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return shutil.copytree(damageable / "runs" / "simulated", tmp_path / "run")


@pytest.mark.parametrize("left", [None, b"", bytes(300)], ids=["lost", "empty", "zeros"])
@pytest.mark.drill
def test_a_fingerprint_that_a_power_cut_took_is_made_anew_from_records_and_data(
    damageable: Path, simulated: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    left: bytes | None, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.chdir(shutil.copytree(damageable, tmp_path / "here"))
    folder = RunFolder(Path("runs/simulated"))
    before = folder.fingerprint.read_bytes()
    leave(folder.fingerprint, left)
    assert fathom(monkeypatch, "report", "runs/simulated").fault == ""
    answer = fathom(monkeypatch, "run", "study.yaml")
    assert (answer.status, answer.fault) == (0, "")
    assert "is lost: it is written again from the records and the data" in caplog.text
    assert folder.fingerprint.read_bytes() == before
    leave(folder.fingerprint, left)
    monkeypatch.setattr("fathom.search.opening.data_digest_of", lambda _: "another text")
    answer = fathom(monkeypatch, "run", "study.yaml")
    assert (answer.status, answer.fault) == (2, "")
    assert "fingerprint.json is lost. The trials of runs/simulated have" in answer.complaint


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(None, id="lost", marks=pytest.mark.drill),
        pytest.param(b"", id="empty", marks=pytest.mark.drill),
        pytest.param(bytes(300), id="zeros"),
    ],
)
def test_a_config_that_a_power_cut_took_is_written_anew_by_the_study_that_began_the_search(
    damageable: Path, simulated: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    left: bytes | None,
) -> None:  # fmt: skip
    monkeypatch.chdir(shutil.copytree(damageable, tmp_path / "here"))
    folder = RunFolder(Path("runs/simulated"))
    before = load(folder.config)
    leave(folder.config, left)
    for verb in (("report", "runs/simulated"), ("run", "runs/simulated/config.yaml")):
        answer = fathom(monkeypatch, *verb)
        assert (answer.status, answer.fault) == (2, ""), verb
        assert "config.yaml is lost: `fathom run STUDY.yaml --runs runs` writes" in answer.complaint
    answer = fathom(monkeypatch, "run", "study.yaml", "--set", "confirm.seeds=4")
    assert (answer.status, answer.fault) == (2, "")
    assert "began with other settings than these" in answer.complaint
    answer = fathom(monkeypatch, "run", "study.yaml")
    assert (answer.status, answer.fault) == (0, "")
    assert load(folder.config) == before


def leave(path: Path, content: bytes | None) -> None:
    """What a power cut leaves of a file: nothing, or an empty one."""
    path.unlink()
    if content is not None:
        path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["state/seconds", "state/report.lock", "fingerprint.json", "tables/optima.csv"]
)
def test_a_device_or_folder_in_the_place_of_a_file_of_the_run_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (run / name).unlink(missing_ok=True)
    if name.startswith("tables"):
        (run / name).mkdir(parents=True)
    else:
        (run / name).symlink_to("/dev/zero")
    answer = fathom(monkeypatch, "report", str(run))
    assert (answer.status, answer.fault) == (2, "")
    assert f"{run / name} must be a plain file" in answer.complaint


def whole_lines(path: Path) -> list[bytes]:
    """Lines of a file that have their end."""
    return path.read_bytes().split(b"\n")[:-1] if path.is_file() else []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"seed"', '"sead"', "`sead` is unknown"),
        ('"gated"', '"of_version_9"', "`of_version_9` is unknown"),
        ('"step": ', '"step": -', "`curve` does not go on"),
        ('"time": ', '"time": -', "`time` can't be"),
        ('"train_seconds": ', '"train_seconds": 1e-300, "time": ', "`train_seconds` can't be 1e"),
        ('"20k-', '"../../20k-', "`trial` can't be '../../20k-"),
        ('"budget": ', '"budget": -', "`budget` can't be -20000"),
    ],
)
def test_a_record_that_no_search_writes_is_refused_though_its_checksum_is_right(
    damageable: Path, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path = tmp_path / "records.jsonl"
    known = lines_of(RunFolder(damageable / "runs" / "simulated").records)
    lines = [json.dumps(line) for line in known]
    at = next(n for n, line in enumerate(lines) if n and '"20k-' in line)
    lines[at] = lines[at].replace(old, new)
    write_sealed(path, map(json.loads, lines))
    assert_refused(path, at, problem)


def assert_refused(path: Path, at: int, problem: str) -> None:
    """Asserts that records are refused at a line, with the problem and the remedy."""
    with pytest.raises(DamagedFileError) as refusal:
        read_records(path)
    assert str(refusal.value).startswith(f"{path}:{at + 1}: ")
    assert problem in str(refusal.value)
    assert f"restore the file, or keep its first {at} line" in str(refusal.value)


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    append_line(path, {"a": 1})
    whole = path.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 5, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            append_line(path, {"b": "x" * 100})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == whole


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
)


@pytest.mark.parametrize("where", ["study.yaml", "best.yaml"])
def test_an_alias_bomb_is_refused_in_little_memory(tmp_path: Path, where: str) -> None:
    (tmp_path / where).write_text(f"{BOMB}\nbudgets: *a11\nbest: *a11\nstudy: s\n")
    command = {"study.yaml": ["plan", "study.yaml"], "best.yaml": ["export", "."]}[where]
    limit = 3 * 2**30  # of addresses: numpy's threads alone take one
    done = run_program(
        *(sys.executable, "-m", "search", *command),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "`*a0` must be written out, not aliased" in done.stderr
    assert {"study.yaml": "study.yaml:2: ", "best.yaml": "(line 2)"}[where] in done.stderr


@pytest.mark.parametrize("name", ["folder", "nowhere.yaml", "/dev/zero", "two\nlines"])
def test_a_pipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    for verb in ("plan", "run", "train"):
        answer = fathom(monkeypatch, verb, name)
        assert (answer.status, answer.fault) == (2, ""), verb
    assert os.listdir(tmp_path) == ["folder"]


def test_no_file_commands_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.yaml").write_text('study: s\n"\\e[2J\\e]0;owned\\a": 1\n')
    monkeypatch.chdir(tmp_path)
    answer = fathom(monkeypatch, "plan", "study.yaml")
    assert answer.fault == ""
    assert "unknown key `\\x1b[2J" in answer.complaint
    assert all(line.isprintable() for line in answer.complaint.rstrip("\n").split("\n"))
