"""Every stage of `python -m benchmarks.gpu` on a CPU, and that a broken subject makes it fail."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import searching
from benchmarks.gpu.__main__ import STAGES, chosen, found_by, main, run
from benchmarks.gpu.finding import (
    Setup,
    StageFinding,
    StageFindings,
    at_least,
    measured,
    within,
)
from benchmarks.gpu.processes import mps
from fathom.models.network.attention import attend
from fathom.models.optim import ClippedAdamW, set_learning_rate
from fathom.objectives.contract import Batch, Model
from fathom.objectives.text.language.objective import Language
from fathom.search.study.hardware.mps import PIPES, GpuSharing
from fathom.search.training.recorded_step import RecordedStep
from fathom.search.training.saving import checkpoint
from fathom.search.training.state import Training
from tests.support.places import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch's own

SETUP = Setup(device=torch.device("cpu"), tiny=True)
ALONE = [stage for stage in STAGES if stage != "search"]
"""The stages without Ray; tests of the search have their own."""

QUICK = "agreement/bfloat16"
"""The case that is run for every change; the others are for the drill."""

Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """As the benchmark has it on a CPU."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _searches_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "RUNS", tmp_path / "searches")


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param(["agreement", "hours"], marks=pytest.mark.drill),
        pytest.param(ALONE, marks=[pytest.mark.siege, pytest.mark.timeout(3600)]),
    ],
    ids=len,
)
def test_stages_pass_and_a_second_run_measures_what_is_missing(
    stages: list[str], tmp_path: Path
) -> None:
    """All of them in the siege: the drill runs each as on a machine with a GPU and no network."""
    whole = StageFindings.open(tmp_path / "gpu.json", SETUP)
    assert run(SETUP, whole, chosen(SETUP, stages), minutes=60)
    assert not whole.failed, [*whole.table()]
    assert {name.split("/")[0] for name in whole.by_case} == set(stages)
    assert all(whole.by_case.values())
    marked = {n for n, found in whole.by_case.items() if any(f.passed is not None for f in found)}
    assert marked <= set(BROKEN), "every case with a mark has a break"

    again = StageFindings.open(whole.file, SETUP)
    assert again.by_case == whole.by_case
    del again.by_case["hours/1x32"]
    assert not run(SETUP, again, chosen(SETUP, stages), minutes=0)
    assert run(SETUP, again, chosen(SETUP, stages), minutes=1)
    assert set(again.by_case) == set(whole.by_case)
    unchanged = {name: findings for name, findings in whole.by_case.items() if name != "hours/1x32"}
    assert unchanged.items() <= again.by_case.items()


def test_a_quick_case_passes_on_a_cpu() -> None:
    findings = found_by(chosen(SETUP, ["agreement"])[QUICK], SETUP)
    assert all(finding.passed for finding in findings if finding.passed is not None)


@pytest.mark.drill
def test_the_order_of_cases_changes_no_figure() -> None:
    """Nothing that a case makes for ever, such as a library's workspace, is counted for it."""
    case, kept = chosen(SETUP, ["memory"], ["predicted"]), list[torch.Tensor]()

    def with_workspace(self: Language, model: Model, batch: Batch) -> torch.Tensor:
        if not kept:
            kept.append(torch.zeros(2**20))
        return right(self, model, batch)

    right = Language.loss
    alone = [found_by(measure, SETUP) for measure in case.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Language, "loss", with_workspace)
        assert [found_by(measure, SETUP) for measure in case.values()] == alone


def test_a_file_keeps_the_findings_of_several_machines_and_nothing_else_is_replaced(
    tmp_path: Path,
) -> None:
    file, other = tmp_path / "gpu.json", replace(SETUP, tiny=False)
    first = StageFindings.open(file, SETUP)
    assert run(SETUP, first, {"a": lambda _: [measured("one", 1.0)]}, minutes=1)
    second = StageFindings.open(file, other)
    assert not second.by_case
    assert run(other, second, {"a": lambda _: [measured("two", 2.0)]}, minutes=1)

    assert StageFindings.open(file, SETUP).by_case == first.by_case
    assert StageFindings.open(file, other).by_case == second.by_case
    of_another_version = file.read_text().replace('"what"', '"name"')
    for text in (
        "[]",
        '{"setups": []}',
        f'{{"setups": {{"{SETUP.name}": 1}}}}',
        of_another_version,
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match="is no file of findings; name another one with --out"):
            StageFindings.open(file, SETUP)
        assert file.read_text() == text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--minutes 0", "--minutes must be above 0, got 0"),
        ("--minutes nan", "--minutes must be above 0, got nan"),
        ("--case zzz", "no case here has zzz in its name"),
        ("--nanogpt none", "--nanogpt must be a checkout with a model.py, got none"),
        ("--out .", "--out . can't be written: Is a directory"),
        ("--out none/x.json", "--out none/x.json can't be written: No such file"),
    ],
)
def test_wrong_options_are_one_line_and_status_2_and_write_nothing(
    options: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["gpu", "--device", "cpu", "--tiny", *options.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_case_in_which_a_command_was_ended_comes_last(tmp_path: Path) -> None:
    def ended(_: Setup) -> list[StageFinding]:
        raise KeyboardInterrupt

    def noted(_: Setup, name: str) -> list[StageFinding]:
        order.append(name)
        return []

    findings, order = StageFindings.open(tmp_path / "gpu.json", SETUP), list[str]()
    cases = {name: partial(noted, name=name) for name in ("first", "second")}
    with pytest.raises(KeyboardInterrupt):
        run(SETUP, findings, {"first": ended}, minutes=1)

    again = StageFindings.open(findings.file, SETUP)
    assert run(SETUP, again, cases, minutes=1)
    assert order == ["second", "first"]


def test_nothing_is_measured_while_a_search_fails_and_the_search_is_measured_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often the command was ended in the search: it stays first."""

    def search(_: Setup) -> list[StageFinding]:
        order.append("search")
        return [at_least("right", float(len(order)), 2)]

    def other(_: Setup) -> list[StageFinding]:
        order.append("other")
        return []

    findings, order = StageFindings.open(tmp_path / "gpu.json", SETUP), list[str]()
    findings.begin("search/answer")
    cases = {"other": other, "search/answer": search}
    assert not run(SETUP, findings, cases, minutes=1)
    assert order == ["search"]
    assert "nothing else is measured while search/answer fails" in capsys.readouterr().out

    again = StageFindings.open(findings.file, SETUP)
    assert run(SETUP, again, cases, minutes=1)
    assert order == ["search", "search", "other"]


def test_a_number_that_is_none_passes_no_mark() -> None:
    nothing = float("nan")
    found = (at_least("", nothing, 0), within("", nothing, 2), within("", 0.4, 2))
    assert [finding.passed for finding in found] == [False] * 3
    assert within("", 0.6, 2).passed


LOOP = "fathom.search.training.loop"


def wait_in_every_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{LOOP}.set_learning_rate", lambda *_: torch.ones(1).item())


def train_at_another_rate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{LOOP}.set_learning_rate", lambda adam, rate: set_learning_rate(adam, 3 * rate))


def know_no_lack_of_memory(patch: pytest.MonkeyPatch) -> None:
    for place in ("loop", "trial"):
        patch.setattr(f"fathom.search.training.{place}.is_out_of_memory", lambda error: False)


def weigh_every_piece_as_the_whole(patch: pytest.MonkeyPatch) -> None:
    def parts(batch: Batch, ranks: object, count: int) -> list[tuple[Batch, float]]:
        chunks = zip(batch.inputs.chunk(count), batch.targets.chunk(count), strict=True)
        return [(Batch(*chunk), 1.0) for chunk in chunks]

    patch.setattr("fathom.search.training.loop.weighted_micro_batches", parts)


def err_if(patch: pytest.MonkeyPatch, wrong: Callable[[], bool]) -> None:
    right = Language.loss

    def loss(self: Language, model: Model, batch: Batch) -> torch.Tensor:
        return right(self, model, batch) * (1.1 if wrong() else 1.0)

    patch.setattr(Language, "loss", loss)


def err_in_bfloat16(patch: pytest.MonkeyPatch) -> None:
    err_if(patch, lambda: torch.is_autocast_enabled("cpu"))


def err_with_two_threads(patch: pytest.MonkeyPatch) -> None:
    err_if(patch, lambda: torch.get_num_threads() > 1)


def compile_something_else(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch, "compile", lambda call, **_: lambda *given: 0.0 * call(*given))


def compile_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fathom.models.network.transformer.Transformer.compile_blocks", lambda _: None)


def keep_no_activations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fathom.models.memory.saved_activations", lambda *_: 0)


def replay_the_first_batch(patch: pytest.MonkeyPatch) -> None:
    right = RecordedStep.__call__
    patch.setattr(
        RecordedStep,
        "__call__",
        lambda self, training, _, rate: right(self, training, self._batch, rate),
    )


def replay_the_first_rate(patch: pytest.MonkeyPatch) -> None:
    first, right = list[float](), RecordedStep.__call__

    def call(self: RecordedStep, training: Training, batch: Batch, rate: float) -> torch.Tensor:
        first.append(rate)
        return right(self, training, batch, first[0])

    patch.setattr(RecordedStep, "__call__", call)


def record_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fathom.search.training.recorded_step.obstacle", lambda _: "it is broken")


def keep_every_loss(patch: pytest.MonkeyPatch) -> None:
    kept, right = list[torch.Tensor](), Language.loss

    def loss(self: Language, model: Model, batch: Batch) -> torch.Tensor:
        kept.append(right(self, model, batch))
        return kept[-1]

    patch.setattr(Language, "loss", loss)


def see_the_next_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("benchmarks.gpu.attention.attend", seen_whole)


def seen_whole(
    qkv: torch.Tensor, s: int, turns: torch.Tensor | None, scale: float, mask: torch.Tensor | None
) -> torch.Tensor:
    """Attention under a mask that is wrong: every token sees all others."""
    everything = torch.ones(qkv.shape[0], 1, 1, qkv.shape[1], dtype=torch.bool)
    return attend(qkv, s, turns, scale, everything)


def forget_the_moments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClippedAdamW, "load_state_dict", lambda self, state: None)


def save_other_weights(patch: pytest.MonkeyPatch) -> None:
    right = checkpoint.save

    def save(state: dict[str, Any], path: Path) -> None:
        right(state | {"model": {k: v + 1 for k, v in state["model"].items()}}, path)

    patch.setattr(checkpoint, "save", save)


def fail_in_training(patch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    for place in ("benchmarks.speed.step.advance", "fathom.search.training.trial.train"):
        patch.setattr(place, fail)


def search_what_is_no_study(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(searching, "STUDY", ROOT / "cluster.yaml")


BROKEN: dict[str, Break] = {
    "steps/eager": wait_in_every_step,
    "steps/diagnostics": wait_in_every_step,
    "steps/bfloat16": wait_in_every_step,
    "steps/Muon": wait_in_every_step,
    "steps/micro-batches": wait_in_every_step,
    "steps/token files": wait_in_every_step,
    "memory/left behind, recorded": keep_every_loss,
    "steps/translation": wait_in_every_step,
    "steps/compiled": compile_nothing,
    "memory/predicted 2x64 V=256": keep_no_activations,
    "memory/left behind": keep_every_loss,
    "memory/forced": know_no_lack_of_memory,
    "attention/causal bfloat16": see_the_next_token,
    "attention/padding bfloat16": see_the_next_token,
    "attention/causal float32": see_the_next_token,
    "attention/padding float32": see_the_next_token,
    "agreement/bfloat16": err_in_bfloat16,
    "agreement/micro-batches": weigh_every_piece_as_the_whole,
    "agreement/compiled": compile_something_else,
    "agreement/device": err_with_two_threads,
    "resume/same end": forget_the_moments,
    "resume/deterministic": forget_the_moments,
    "resume/checkpoint": save_other_weights,
    "graphs/same losses": replay_the_first_batch,
    "graphs/steps": record_nothing,
    "speed/tiny V=64 eager": fail_in_training,
    "rivals/tiny V=64 eager": fail_in_training,
    "ranks/gloo": train_at_another_rate,
    "hours/trial": fail_in_training,
    "search/answer": search_what_is_no_study,
    "search/killed and resumed": search_what_is_no_study,
}
"""Case -> what breaks its subject; the sizes of `hours` are figures alone."""


def test_processes_inside_find_mps_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.setattr(GpuSharing, "start", lambda sharing: setattr(sharing, "pipes", tmp_path))
    with mps() as trouble:
        assert not trouble
        assert os.environ[PIPES] == str(tmp_path)
    assert PIPES not in os.environ

    monkeypatch.setattr(GpuSharing, "start", lambda _: "no GPU")
    with mps() as trouble:
        assert trouble == "no GPU"
        assert PIPES not in os.environ


@pytest.mark.drill
def test_a_graph_with_a_rate_that_stays_makes_its_stage_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay_the_first_rate(monkeypatch)
    case = chosen(SETUP, ["graphs"])["graphs/same losses"]
    assert any(finding.passed is False for finding in found_by(case, SETUP))


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(n, marks=pytest.mark.drill) for n in BROKEN if n != QUICK)]
)
def test_a_stage_fails_if_its_subject_is_broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[name](monkeypatch)
    cases = chosen(SETUP, list(STAGES))

    assert any(finding.passed is False for finding in found_by(cases[name], SETUP))
