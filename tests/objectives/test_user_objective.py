"""An objective of the user's: the worked example, and what is said when it can't be used."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.objectives.prepare import prepare
from fathom.objectives.user_code import named, own_modules, user_code
from fathom.objectives.user_objective import UserObjectiveConfig
from fathom.search.commands.train_best import train_best
from fathom.search.export.best import BestShape
from fathom.search.study.file.study_file import load
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from tests.support.command_line import run
from tests.support.objectives import CPU, refused
from tests.support.places import ROOT

EXAMPLE = ROOT / "examples" / "parity.yaml"
MODULE = """
class NoObjective:
    @classmethod
    def prepare(cls, *, context, size=3):
        return cls()

class Other:
    vocab_size, chance_loss, context = 3, 1.0, 7
    to = batch = loss = evaluate = final_metrics = None

    @classmethod
    def prepare(cls, *, context):
        return cls()

class Task(Other):
    context, ids = 8, 3

    def __init__(self):
        import torch
        from fathom.objectives.contract import Batch
        self.to = lambda device: self
        ids = torch.full((1, 8), self.ids)
        self.batch = lambda *, seed, step, batch_size: Batch(ids, ids)

class Exits(Other):
    @classmethod
    def prepare(cls, *, context):
        raise SystemExit("no data")

class Fails(Exits):
    @classmethod
    def prepare(cls, *, context):
        return {}["path"]

class Stop(BaseException):
    pass

class Stops(Other):
    @classmethod
    def prepare(cls, *, context):
        raise Stop("enough")

class Wordy(Task):
    vocab_size = "many"

class Unequal(Task):
    ids = -1

class Broken(Other):
    context = 8

    @property
    def vocab_size(self):
        return 1 / 0

number = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with modules of the user's."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "task.py").write_text(MODULE)
    (tmp_path / "mine" / "broken.py").write_text("1 / 0\n")
    (tmp_path / "mine" / "exits.py").write_text("raise SystemExit('usage')\n")
    (tmp_path / "mine" / "stops.py").write_text("raise BaseException('enough')\n")
    (tmp_path / "mine" / "needy.py").write_text("\nimport nets\n")
    (tmp_path / "mine" / "open.py").write_text("\ndef task(:\n")
    (tmp_path / "mine" / "wordy.py").write_text("raise ValueError('two\\nlines')\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("nothere.task:Task", {}, ("must be importable", "No module named 'nothere'")),
        ("mine.tusk:Task", {}, ("must be importable", "No module named 'mine.tusk'")),
        ("mine.broken:Task", {}, ("broken.py, line 1", "ZeroDivisionError: division by zero")),
        ("mine.needy:Task", {}, ("needy.py, line 2, got", "No module named 'nets'", "fix it")),
        ("mine.open:Task", {}, ("open.py, line 2, got SyntaxError", "fix it there")),
        ("mine.task.py:Task", {}, ("No module named 'mine.task.py'", "mine.task:Task, without")),
        ("mine.wordy:Task", {}, ("ValueError: two lines;",)),
        ("mine.task:NoObjektive", {}, ("has no NoObjektive", "did you mean 'NoObjective'?")),
        ("mine.task:number", {}, ("must be a class with `prepare`", "has number without it")),
        ("mine.task:NoObjective", {"sise": 3}, ("what its `prepare` takes", "'sise'", "size=3")),
        ("mine.task:NoObjective", {}, ("must be an objective", "vocab_size", "final_metrics")),
        ("mine.task:Other", {}, ("`context`", "the study's, 8", "got 7")),
        ("mine.task:Exits", {}, ("must be prepared", "SystemExit: no data at", "task.py, line")),
        ("mine.task:Fails", {}, ("must be prepared", "KeyError: 'path' at", "task.py, line")),
        ("mine.task:Broken", {}, ("must be prepared", "ZeroDivisionError", "task.py, line")),
        ("mine.task:Wordy", {}, ("must be a whole number above 0", "got 'many'")),
        ("mine.task:Task", {}, ("must be from 0 to 2", "`vocab_size`", "got 3 to 3")),
        ("mine.task:Unequal", {}, ("must be from 0 to 2", "got -1 to -1")),
        ("mine.exits:Task", {}, ("exits.py, line 1", "SystemExit: usage")),
        ("mine.stops:Task", {}, ("stops.py, line 1", "BaseException: enough")),
        ("mine.task:Stops", {}, ("must be prepared", "Stop: enough at", "task.py, line")),
    ],
)
def test_an_invalid_objective_is_refused_in_one_line(
    folder: Path, name: str, settings: dict[str, Any], words: tuple[str, ...]
) -> None:
    with refused(*words, name):
        prepare(UserObjectiveConfig(name=name, context=8, **settings))


def test_a_module_that_raises_whenever_it_is_asked_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sulky.py").write_text("def __getattr__(name): raise RuntimeError(name)")
    monkeypatch.chdir(tmp_path)
    with refused("sulky:Task must be importable", "sulky.py", "RuntimeError: Task"):
        named("sulky:Task", "objective")
    (tmp_path / "mute.py").write_text(
        "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute"
    )
    with refused("mute:Task must be importable", "Mute: an error without a text"):
        named("mute:Task", "objective")


def test_ctrl_c_in_a_users_code_stays_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), user_code("it must run"):
        raise KeyboardInterrupt


def test_the_example_is_planned_by_its_own_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load(EXAMPLE)

    assert vocab_size_of(config.objective) == config.objective.vocab_size() == 5
    plans = plan_study(config, 5, this_machine(config.resources, config.train))
    assert [plan.budget.tokens_per_step for plan in plans] == [16 * 24] * 2


def test_the_example_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load(EXAMPLE)
    shape = plan_study(config, 5, this_machine(config.resources, config.train))[0].shapes[0]
    said: list[str] = []

    train_best(BestShape(config, 8_000, shape), tokens="8k", out=tmp_path / "out", say=said.append)

    assert "exact_match" in said[1]
    assert (tmp_path / "out" / "weights.pt").exists()


def test_an_error_in_it_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = EXAMPLE.read_text(encoding="utf-8").replace("share_of_ones: 0.3", "share_of_ones: 3")
    (tmp_path / "x.yaml").write_text(study, encoding="utf-8")

    answer = run(sys.executable, "-m", "search", "plan", tmp_path / "x.yaml", cwd=ROOT)

    assert answer.returncode == 2
    assert answer.stderr == (
        f"fathom: {tmp_path / 'x.yaml'}:4: objective examples.parity:Parity: "
        "`share_of_ones` must be between 0 and 1, got 3; use 0.5\n"
    )


def test_the_answers_of_the_example_are_the_parities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    task = prepare(UserObjectiveConfig(name="examples.parity:Parity", context=9)).to(CPU)

    inputs, targets, _ = task.batch(seed=0, step=0, batch_size=20)

    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        ones = 0
        for token, answer in zip(row, answers, strict=True):
            ones += token == 2
            assert answer == (4 if ones % 2 else 3)


def test_the_command_finds_a_module_of_the_working_folder(folder: Path) -> None:
    source = (ROOT / "examples" / "parity.py").read_text(encoding="utf-8")
    (folder / "mine" / "parity.py").write_text(source, encoding="utf-8")
    study = EXAMPLE.read_text(encoding="utf-8").replace("examples.parity", "mine.parity")
    (folder / "x.yaml").write_text(study, encoding="utf-8")

    # As the installed command does, which puts its own folder first on the path and not ours.
    asked = "import sys; sys.path[0] = sys.argv.pop(1); from fathom.search.cli import main; main()"
    answer = run(sys.executable, "-c", asked, ROOT, "plan", "x.yaml", cwd=folder)

    assert answer.returncode == 0, answer.stderr
    assert "16k" in answer.stdout


def test_a_part_of_a_module_whose_path_is_no_list_is_not_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`torch.classes` has such a path, and may be imported while a search joins a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "strange.classes", SimpleNamespace(__path__=object()))
    monkeypatch.setitem(sys.modules, "forbidden", None)  # as who forbids an import sets it
    assert own_modules() == []
