"""The command `analyse` on a project of W&B, whose server and package a module stands in for."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from fathom.search.analysing import source as analyse_source
from tests.support.command_line import here
from tests.support.tables import DEPTHS, planted_loss

PROJECT = "wandb:me/depths"
STEPS = (100, 200, 300)


@dataclass
class Run:
    """A run as W&B's package gives it."""

    name: str
    config: dict[str, Any]
    history: list[dict[str, Any]]
    state: str = "finished"

    def scan_history(self) -> Iterator[dict[str, Any]]:
        return iter(self.history)


@dataclass
class Server:
    """What the stand-in answers."""

    runs: list[Run] = field(default_factory=list)
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)


class ServerError(Exception):
    """W&B's own error."""


def run(depth: int, seed: int, **changes: Any) -> Run:
    """A run whose config has groups and whose history has training losses of other steps."""
    history = [
        row
        for step in STEPS
        for row in (
            {"_step": step - 50, "train/loss": 1.0, "note": "text"},
            {"_step": step, "val/loss": planted_loss(depth) + 0.002 * seed + 10 / step - 10 / 300},
        )
    ]
    model = {"n_layer": depth, "n_params": 10_000_000}
    return Run(f"bright-sky-{seed}", {"model": model, "seed": seed}, history, **changes)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server([run(depth, seed) for depth in DEPTHS for seed in range(3)])

    class Api:
        def __init__(self, timeout: int) -> None:
            assert timeout > 0
            assert not sys.stdin.read(1), "nobody is asked for a key"

        def runs(self, place: str, lazy: bool) -> list[Run]:
            found.asked.append(place)
            assert not lazy, "configs come with the runs"
            if found.error:
                raise found.error
            return found.runs

    package, errors = ModuleType("wandb"), ModuleType("wandb.errors")
    package.Api, package.errors, errors.Error = Api, errors, ServerError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setitem(sys.modules, "wandb.errors", errors)
    monkeypatch.delitem(sys.modules, "fathom.search.tables.folders.wandb_project", raising=False)
    monkeypatch.setattr(analyse_source, "find_spec", lambda name: object())
    return found


def said(*arguments: object) -> tuple[int, str, str]:
    done = here("analyse", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_project_has_the_answer_of_its_runs(server: Server) -> None:
    status, out, error = said(PROJECT)

    assert (status, error) == (0, "")
    assert server.asked == ["me/depths"]
    assert "45 rows, 15 runs of 5 shapes" in out
    assert "depth = model.n_layer, loss = val/loss" in out
    assert "identified" in out


def test_a_run_that_crashed_does_not_count(server: Server) -> None:
    for crashed in server.runs[:1]:
        crashed.state = "crashed"
        crashed.history = [row for row in crashed.history if row["_step"] < STEPS[-1]]
    _, out, _ = said(PROJECT)

    assert "14 runs of 5 shapes" in out


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ServerError("could not find project me/depths"), "could not find project me/depths"),
        (ValueError("no api key"), "no api key"),
        (OSError(), "got: nothing"),
    ],
)
def test_what_the_server_refuses_is_one_line_with_the_remedies(
    error: Exception, message: str, server: Server
) -> None:
    server.error = error
    status, out, line = said(PROJECT)

    assert (status, out) == (2, "")
    assert message in line
    assert "log in with `wandb login`" in line


@pytest.mark.parametrize("address", ["wandb:", "wandb:depths", "wandb:a/b/c", "wandb:/depths"])
def test_another_form_of_address_is_refused_before_anything_is_asked(
    address: str, server: Server
) -> None:
    status, _, line = said(address)

    assert status == 2
    assert "must be wandb:ENTITY/PROJECT" in line
    assert not server.asked


def test_a_project_without_runs_and_one_without_a_depth_say_so(server: Server) -> None:
    for each in server.runs:
        each.config = {"seed": 1}
    assert "or put it into the config of each run" in said(PROJECT)[2]
    server.runs = []
    assert "must have runs, got none" in said(PROJECT)[2]


def test_without_the_package_its_installation_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyse_source, "find_spec", lambda name: None)

    status, _, line = said(PROJECT)
    assert status == 2
    assert "run `pip install wandb` first" in line


@pytest.mark.parametrize("flags", [("--experiment", "sweep"), ("--line", "loss={loss}")])
def test_flags_of_other_sources_are_refused(flags: tuple[str, str], server: Server) -> None:
    status, _, line = said(PROJECT, *flags)

    assert status == 2
    assert flags[0] in line
    assert "drop it" in line
