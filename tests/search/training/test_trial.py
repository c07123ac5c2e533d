"""One trial: its reports, the checkpoint that outlives it, and exceptions that become outcomes."""

import errno
import io
import itertools
import math
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.objectives.contract import Batch, Model
from fathom.objectives.prepare import prepare
from fathom.search.analysis.losses.depth_estimates import estimate_depths
from fathom.search.records import Outcome, Report, TrialRecord, TrialSpec
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.near_shapes import comparable_shape
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training import trial as trials
from fathom.search.training.assignment import standalone_spec
from fathom.search.training.device import DeviceError
from fathom.search.training.layer_metrics import SEED as DIAGNOSTICS_SEED
from fathom.search.training.saving import trial_log
from fathom.search.training.state import TrainPlan
from fathom.search.training.trial import (
    Attempt,
    GpuFaultError,
    MachineMemoryError,
    RunningTrial,
    catch_failures,
    run_trial,
    train_plan,
)
from tests.support.repeated import repeating_study
from tests.support.toy import CPU, Successor
from tests.support.training import (
    BUDGET,
    CONFIG,
    EVALUATIONS,
    RUNGS,
    SHAPE,
    SPEC,
    assignment,
    checkpoint,
    losses_reported,
    record_of,
)


def trial(
    folder: Path,
    *,
    objective: Successor | None = None,
    spec: TrialSpec = SPEC,
    config: StudyConfig = CONFIG,
) -> RunningTrial:
    return RunningTrial(assignment(folder, config, spec), objective or Successor(), CPU)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Report]:
    """The reports of a trial that nothing disturbs."""
    return list(trial(tmp_path_factory.mktemp("undisturbed")).reports())


def attempts(folder: Path, objective: Successor) -> Attempt:
    return lambda micro_batches: RunningTrial(
        assignment(folder), objective, CPU, micro_batches=micro_batches
    ).reports()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spiking(Successor):
    """The held-out loss is told 100 times too high at some evaluations, counted from 0."""

    spikes: frozenset[int] = frozenset()
    counter: Iterator[int] = field(default_factory=itertools.count)

    def evaluate(self, model: Model) -> dict[str, float]:
        metrics = Successor.evaluate(self, model)
        if next(self.counter) in self.spikes:
            # Below chance, or it would be divergence.
            metrics["loss"] = math.log(8) - 1e-6
        return metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(Successor):
    """An objective that raises an error at a step."""

    error: Exception
    at_step: int

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        if step == self.at_step:
            raise self.error
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy(Successor):
    """An objective that runs out of memory for more than some sequences at once."""

    most: int

    def loss(self, model: Model, batch: Batch) -> Tensor:
        if torch.is_grad_enabled() and len(batch.inputs) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried...\nmore")
        return Successor.loss(self, model, batch)


def test_a_trial_reports_at_its_rungs_and_at_the_end(tmp_path: Path) -> None:
    reports = list(trial(tmp_path).reports())
    rungs = [report.rung for report in reports if report.rung is not None]
    assert [tokens for tokens, _ in rungs] == [step * BUDGET.tokens_per_step for step in RUNGS]
    last = reports[-1]
    assert (last.outcome, last.reason) == (Outcome.FINISHED, "trained to the horizon")
    assert last.rung is None
    assert [report.outcome for report in reports[:-1]] == [None] * (len(reports) - 1)
    for report, other in itertools.pairwise(reports):
        assert other.points[: len(report.points)] == report.points, "all points so far"
    points = last.points
    assert tuple(point.step for point in points) == EVALUATIONS
    assert all(point.tokens == point.step * BUDGET.tokens_per_step for point in points)
    assert points[-1].tokens == BUDGET.tokens
    assert all(point.metrics["sequences"] == 8.0 for point in points)
    assert all(a.time <= b.time for a, b in itertools.pairwise(points))
    assert reports[0].setup_seconds > 0
    assert last.peak_memory_bytes is None
    for tokens, value in rungs:
        recent = [point for point in points if point.tokens <= tokens][-3:]
        assert recent[-1].tokens == tokens
        assert value == statistics.median(point.loss for point in recent)
        # They lie one percent of the horizon apart.
        assert recent[0].step == recent[-1].step - 2


def rung_values(reports: list[Report]) -> dict[int, float]:
    return dict(report.rung for report in reports if report.rung is not None)


@pytest.mark.parametrize("rung", RUNGS)
def test_one_spike_at_a_rung_does_not_count(
    undisturbed: list[Report], tmp_path: Path, rung: int
) -> None:
    spiking = Spiking(spikes=frozenset({EVALUATIONS.index(rung)}))
    wild = list(trial(tmp_path, objective=spiking).reports())
    assert wild[-1].points[EVALUATIONS.index(rung)].loss > 2
    # The value stays one of those just before the rung, the largest of the two that are left.
    at = EVALUATIONS.index(rung)
    before = [point.loss for point in undisturbed[-1].points[at - 2 : at]]
    tokens = rung * BUDGET.tokens_per_step
    assert rung_values(wild)[tokens] == max(before)


def test_two_spikes_of_three_do_count(tmp_path: Path) -> None:
    at = EVALUATIONS.index(RUNGS[1])
    reports = list(trial(tmp_path, objective=Spiking(spikes=frozenset({at - 1, at}))).reports())
    assert rung_values(reports)[RUNGS[1] * BUDGET.tokens_per_step] > 2


def test_between_rungs_a_trial_reports_every_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_log, "REPORT_SECONDS", 0.0)
    reports = list(trial(tmp_path).reports())
    assert len(reports) == len(EVALUATIONS)


def test_a_checkpoint_is_whole_at_every_rung_and_leaves_no_other_file(tmp_path: Path) -> None:
    for report in trial(tmp_path).reports():
        assert not list(tmp_path.glob("*.tmp"))
        if report.rung is not None:
            state = torch.load(checkpoint(tmp_path), weights_only=True)
            assert state["training"]["step"] == report.points[-1].step
            assert len(state["points"]) == len(report.points)
    assert list(tmp_path.iterdir()) == [checkpoint(tmp_path)]


@pytest.mark.parametrize("rung", range(len(RUNGS)))
def test_a_trial_killed_after_a_rung_resumes_as_if_never_killed(
    undisturbed: list[Report], tmp_path: Path, rung: int
) -> None:
    killed = trial(tmp_path).reports()
    at_rung = [next(report for report in killed if report.rung) for _ in range(rung + 1)][-1]
    next(killed, None)  # it had gone on for a while
    del killed  # and what it was writing is written
    again = list(trial(tmp_path).reports())
    assert again[0].outcome is None, "it first reports its state"
    # What is kept may be newer than the rung only if the next report was a rung as well.
    newest = again[0]
    assert newest.rung is not None
    assert newest.rung[0] >= at_rung.points[-1].tokens
    assert rung_values(undisturbed)[newest.rung[0]] == newest.rung[1]
    assert newest.points[-1].tokens == newest.rung[0]
    assert losses_reported(newest) == losses_reported(undisturbed[-1])[: len(newest.points)]
    assert losses_reported(again[-1]) == losses_reported(undisturbed[-1])


@pytest.mark.parametrize("asked_at", [3, 60])
def test_a_trial_saves_its_state_at_an_interrupt(
    undisturbed: list[Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_at: int
) -> None:
    monkeypatch.setattr("fathom.search.training.saving.trial_log.INTERRUPT_POLL_SECONDS", 0.0)
    running = trial(tmp_path / "left")
    monkeypatch.setattr(
        running._schedule, "interrupted", lambda: running._training.step == asked_at
    )
    reports = list(itertools.takewhile(lambda report: True, running.reports()))
    assert losses_reported(reports[-1]) == losses_reported(undisturbed[-1]), (
        "nobody ended it, so it went on"
    )
    left = trial(tmp_path / "ended")
    monkeypatch.setattr(left._schedule, "interrupted", lambda: left._training.step >= asked_at)
    last = next(r for r in left.reports() if left._training.step >= asked_at)
    assert last.outcome is None
    assert all(point.step <= asked_at for point in last.points)
    rest = list(trial(tmp_path / "ended").reports())
    assert losses_reported(rest[-1]) == losses_reported(undisturbed[-1])


def test_replicates_differ_and_shapes_see_the_same_data(tmp_path: Path) -> None:
    seeds = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Watching(Successor):
        def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
            if seed != DIAGNOSTICS_SEED:
                seeds.append(seed)
            return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)

    for number, spec in enumerate(
        (SPEC, replace(SPEC, seed=1), replace(SPEC, shape=replace(SHAPE, depth=1)))
    ):
        named = replace(spec, trial=f"trial-{number}")
        next(trial(tmp_path, spec=named, objective=Watching()).reports())
        seeds.append(-1)
    first, second, third = (
        list(group) for key, group in itertools.groupby(seeds, lambda seed: seed >= 0) if key
    )
    assert set(first).isdisjoint(second)
    assert first == third


def test_a_diverged_trial_ends_with_its_points_and_the_reason(tmp_path: Path) -> None:
    reports = list(trial(tmp_path, objective=Successor(fault=lambda _: math.nan)).reports())
    assert [report.outcome for report in reports] == [Outcome.DIVERGED]
    assert "not finite" in reports[0].reason
    assert len(reports[0].points) == 1
    assert math.isnan(reports[0].points[0].loss)
    assert reports[0].rung is None
    assert not checkpoint(tmp_path).exists()


def test_an_exception_becomes_a_failed_report_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Failing(error=RuntimeError("the disk is on fire\nand more"), at_step=30)
    reports = list(catch_failures(trial(tmp_path, objective=broken).reports()))
    assert reports[0].rung is not None
    assert reports[-1].outcome is Outcome.FAILED
    assert reports[-1].reason == "RuntimeError: the disk is on fire"
    assert "Traceback" in capsys.readouterr().err


def test_a_gpu_that_fails_ends_the_worker_and_not_the_trial(tmp_path: Path) -> None:
    fault = torch.AcceleratorError("CUDA error: an illegal memory access\nCompile with")
    broken = Failing(error=fault, at_step=30)
    with pytest.raises(GpuFaultError, match=r"^CUDA error: an illegal memory access$"):
        list(catch_failures(trial(tmp_path, objective=broken).reports()))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes."),
        RuntimeError("unable to mmap 9 bytes from file </x>: Cannot allocate memory (12)"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        MemoryError("Unable to allocate 8.00 MiB"),
    ],
)
def test_a_machine_without_memory_ends_the_worker_and_not_the_trial(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "is_short_of_memory", lambda: True)

    def greedy() -> Iterator[Report]:
        yield Report(points=())
        raise error

    with pytest.raises(MachineMemoryError):
        list(catch_failures(greedy()))


def test_running_out_of_memory_is_an_outcome_of_its_own() -> None:
    def greedy() -> Iterator[Report]:
        torch.empty(10**15)
        yield Report(points=())

    (report,) = catch_failures(greedy())
    assert report.outcome is Outcome.OUT_OF_MEMORY
    assert "allocate" in report.reason
    assert "\n" not in report.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_a_request_to_stop_is_no_failure(error: BaseException) -> None:
    def stopped() -> Iterator[Report]:
        yield Report(points=())
        raise error

    with pytest.raises(type(error)):
        list(catch_failures(stopped()))


def test_an_error_of_users_code_that_is_no_exception_fails_the_trial() -> None:
    def stopped() -> Iterator[Report]:
        yield Report(points=())
        raise BaseException("enough")

    _, report = catch_failures(stopped())
    assert (report.outcome, report.reason) == (Outcome.FAILED, "BaseException: enough")


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "cut short":
        content = content[: len(content) // 2]
    elif how == "one byte changed":
        content[len(content) // 2] ^= 255
    elif how == "another file":
        content = bytearray(b"not a checkpoint")
    path.write_bytes(content)
    state: Any = torch.load(io.BytesIO(content), weights_only=True) if how in STATES else None
    if how == "a pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "a list":
        torch.save([state], path)
    elif how == "a tensor":
        torch.save(torch.zeros(3), path)
    elif how in STATES:
        del (state["training"] if how == "model" else state)[how]
        torch.save(state, path)


STATES = ("a list", "a tensor", "points", "training", "model")
"""Ways in which a whole file is no checkpoint; the last three name a key that it lacks."""


@pytest.mark.parametrize(
    "how", ["cut short", "one byte changed", "another file", "a pipe", *STATES]
)
def test_a_damaged_checkpoint_is_reported_and_the_trial_starts_anew_to_the_same_end(
    undisturbed: list[Report], tmp_path: Path, how: str
) -> None:
    running = trial(tmp_path)
    next(report for report in running.reports() if report.rung)
    damage(checkpoint(tmp_path), how)
    with pytest.warns(UserWarning, match="is damaged and is not used"):
        again = trial(tmp_path)
    assert losses_reported(list(again.reports())[-1]) == losses_reported(undisturbed[-1])


@pytest.mark.parametrize(
    "other", [replace(SPEC, trial="another"), replace(SPEC, shape=replace(SHAPE, d_ff=48))]
)
def test_a_checkpoint_of_another_trial_is_not_used(
    undisturbed: list[Report], tmp_path: Path, other: TrialSpec
) -> None:
    next(report for report in trial(tmp_path, spec=other).reports() if report.rung)
    reports = list(trial(tmp_path).reports())
    assert reports[0].points[0].step == EVALUATIONS[0]
    assert losses_reported(reports[-1]) == losses_reported(undisturbed[-1])


@pytest.mark.parametrize(
    ("objective", "killed"), [(Greedy(most=1), False), (Successor(), True)], ids=["error", "killed"]
)
def test_a_trial_that_lacked_memory_trains_in_micro_batches_to_the_same_losses(
    undisturbed: list[Report], tmp_path: Path, objective: Successor, killed: bool
) -> None:
    reports = list(run_trial(attempts(tmp_path, objective), out_of_memory=killed))
    assert reports[-1].outcome is Outcome.FINISHED
    assert reports[-1].reason.endswith("in 4 micro-batches a step, as it had run out of memory")
    for point, expected in zip(reports[-1].points, undisturbed[-1].points, strict=True):
        assert point.loss == pytest.approx(expected.loss, rel=1e-4)


def test_a_trial_without_memory_for_a_sequence_is_out_of_memory(tmp_path: Path) -> None:
    (report,) = catch_failures(run_trial(attempts(tmp_path, Greedy(most=0))))
    assert report.outcome is Outcome.OUT_OF_MEMORY
    assert report.reason == "CUDA out of memory. Tried..."


# How shares of the horizon become steps.


def plan_of(text: str = "", *, device: str = "cpu") -> TrainPlan:
    config = parse(f"study: s\nobjective: {{name: language, context: 8}}\nbudgets: [1M]\n{text}")
    return train_plan(config, expand_budgets(config)[0], replace(SPEC, learning_rate=0.5), device)


def test_shares_become_whole_steps_and_the_trial_brings_its_rate() -> None:
    plan = plan_of("tokens: 80000\ntrain: {batch_size: 10, warmup: 0.05, cooldown: 0.3}")
    assert (plan.steps, plan.batch_size) == (1000, 10)
    assert (plan.warmup_steps, plan.cooldown_steps) == (50, 300)
    assert plan.learning_rate == 0.5
    assert plan.evaluation_steps[-1] == 1000
    assert plan.pretraining_steps == 0
    assert plan_of("train: {warmup: 0}").warmup_steps == 1, "there is always a step of warm-up"


def test_a_bracket_of_decays_trains_with_each_and_the_loss_of_the_shape_is_at_the_best(
    tmp_path: Path,
) -> None:
    """Each training repeats its text 230 times, and takes 2 seconds."""
    config = repeating_study(tmp_path, "confirm: {decays: [1, 10]}")
    (budget,) = expand_budgets(config)
    objective = prepare(config.objective).to(CPU)
    shapes = feasible_shapes(config, budget, objective.vocab_size)
    spec = standalone_spec("60k-1", config, budget, comparable_shape(shapes, depth=1, ff_ratio=4.0))

    def trained(decay: float) -> TrialRecord:
        trial = replace(spec, trial=f"60k-{decay:g}", decay_scale=decay)
        work = assignment(tmp_path / trial.trial, config, trial)
        *_, last = RunningTrial(work, objective, CPU).reports()
        return record_of(trial, last)

    own, stronger = trained(1.0), trained(10.0)
    assert own.loss
    assert stronger.loss
    assert stronger.loss < own.loss - 0.1, "another weight decay than the study's"
    (estimate,) = estimate_depths([own, stronger]).depths
    assert estimate.loss == pytest.approx(stronger.loss, abs=1e-3), "but for its size"


def test_the_plan_of_a_trial_has_the_steps_of_its_pre_training() -> None:
    config = parse(
        "study: s\nbudgets: [1M]\ntokens: 2000\nstopping: {enabled: false}\n"
        "objective: {name: transduction, context: 10, pretraining: {tokens: 505}}\n"
        "train: {batch_size: 2}\n"
    )
    assert train_plan(config, expand_budgets(config)[0], SPEC, "cpu").pretraining_steps == 26


@pytest.mark.parametrize(
    ("precision", "device", "bfloat16"),
    [
        ("auto", "cpu", False),
        ("auto", "cuda", True),
        ("float32", "cuda", False),
        ("bfloat16", "cpu", True),
    ],
)
def test_precision_follows_the_setting_and_the_device(
    precision: str, device: str, bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert plan_of(f"train: {{precision: {precision}}}", device=device).bfloat16 is bfloat16


def test_a_gpu_without_bfloat16_computes_in_float32_or_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
    assert not plan_of("train: {precision: auto}", device="cuda").bfloat16
    with pytest.raises(DeviceError, match="needs a GPU that computes in it, got Tesla T4"):
        plan_of("train: {precision: bfloat16}", device="cuda")


@pytest.mark.parametrize(
    ("setting", "compiled"), [("auto", False), ("true", True), ("false", False)]
)
def test_a_short_trial_on_a_cpu_is_compiled_only_when_told(setting: str, compiled: bool) -> None:
    assert plan_of(f"train: {{compile: {setting}}}").compiled is compiled


@pytest.mark.parametrize(
    ("keys", "recorded"),
    [
        ("{}", True),
        ("{compile: graph}", True),
        ("{compile: false}", False),
        ("{compile: true}", True),
        ("{dropout: 0.1}", False),
        ("{optimizer: muon}", False),
    ],
)
def test_small_steps_on_a_gpu_are_recorded_as_a_graph_unless_that_is_impossible_or_unwanted(
    keys: str, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert plan_of(f"train: {keys}", device="cuda").recorded is recorded
    assert plan_of(f"train: {keys}", device="cpu").recorded is (keys == "{compile: graph}")


def test_batches_of_many_widths_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    rows = parse("study: s\nbudgets: [1M]\nobjective: {name: transduction, context: 12}\n")
    assert rows.objective.batch_widths > 1
    assert not train_plan(rows, expand_budgets(rows)[0], SPEC, "cuda").recorded
