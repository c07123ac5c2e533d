"""The search between events, without Ray and without training: `search/scheduling/scheduler.py`."""

import itertools
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.simulate.study import TWO_BUDGETS
from fathom.search.analysis.answer.finding import find_optima
from fathom.search.analysis.answer.optimum import Located
from fathom.search.json_lines import append_line, read_lines
from fathom.search.records import Outcome, Stage, TrialSpec
from fathom.search.run_folder import RunFolderError, read_records
from fathom.search.scheduling.halving import HalvingRule
from fathom.search.scheduling.journal import read_run
from fathom.search.scheduling.sampling.study_sampler import ShapeSampler
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.scheduling.trained_depths import paused_trial
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.groups import Sampler, StoppingConfig, StoppingMethod
from fathom.search.study.planning.budget import rung_steps
from tests.support.dry_run import Simulation, best_at_four, scheduler, study


def test_every_budget_is_explored_then_confirmed(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run()
    stages = Counter((r.spec.budget, r.spec.stage) for r in search.records)
    for budget in (20_000, 40_000):
        assert stages[budget, Stage.EXPLORE] == 10
        assert 3 <= stages[budget, Stage.CONFIRM] <= 3 * (2 + 2)
    assert read_records(search.folder.records) == sorted(search.records, key=lambda r: r.ended or 0)


def test_confirming_trials_and_the_exempt_are_never_stopped(tmp_path: Path) -> None:
    config = study(budgets=(20_000,), trials=40, stopping=StoppingConfig(always_finish=0.3))
    search = scheduler(config, tmp_path)
    Simulation(search).run()
    assert any(r.outcome is Outcome.STOPPED for r in search.records)
    exempt = [r for r in search.records if not r.spec.prunable]
    assert all(r.outcome is Outcome.FINISHED for r in exempt)
    share = sum(r.spec.stage is Stage.EXPLORE for r in exempt) / 40
    assert abs(share - 0.3) < 3 * math.sqrt(0.3 * 0.7 / 40)


def test_budgets_advance_together(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    started = [search.next_trial() for _ in range(8)]
    budgets = [spec.budget for spec in started if spec]
    assert Counter(budgets) == {20_000: 4, 40_000: 4}


def test_confirmation_waits_for_exploring_trials_while_other_budgets_continue(
    tmp_path: Path,
) -> None:
    search = scheduler(study(trials=2), tmp_path)
    started = [search.next_trial() for _ in range(5)]
    assert started[4] is None
    simulation = Simulation(search, running=[spec.trial for spec in started if spec], slots=4)
    simulation.run()
    assert search.done


def test_a_diverged_trial_is_never_best_and_does_not_stop_others(tmp_path: Path) -> None:
    def explodes(spec: TrialSpec, share: float) -> float:
        deep = spec.shape.depth > 6
        return math.nan if deep and share > 0.04 else best_at_four(spec, share)

    search = scheduler(study(budgets=(20_000,), trials=16), tmp_path)
    Simulation(search, explodes).run()
    diverged = [r for r in search.records if r.outcome is Outcome.DIVERGED]
    assert diverged
    assert all(r.loss is None for r in diverged)
    confirmed = {r.spec.shape.depth for r in search.records if r.spec.stage is Stage.CONFIRM}
    assert 4 in confirmed or {3, 5} & confirmed


def test_a_ladder_takes_every_depth_once_to_the_end(tmp_path: Path) -> None:
    search = scheduler(study(budgets=(20_000,), sampler=Sampler.LADDER), tmp_path)
    Simulation(search).run()
    for budget in search.budgets.values():
        explored = [r for r in budget.ended if r.spec.stage is Stage.EXPLORE]
        depths = [r.spec.shape.depth for r in explored]
        assert sorted(depths) == sorted({shape.depth for shape in budget.shapes})
        assert all(r.outcome is Outcome.FINISHED for r in explored)


def test_a_shape_drawn_again_is_a_new_seed_of_it(tmp_path: Path) -> None:
    search = scheduler(study(budgets=(20_000,), trials=40, sampler=Sampler.TPE), tmp_path)
    Simulation(search).run()
    explored = [r.spec for r in search.records if r.spec.stage is Stage.EXPLORE]
    assert len({(spec.budget, spec.shape, spec.seed) for spec in explored}) == len(explored)
    assert any(spec.seed > 0 for spec in explored)


def test_the_curve_draws_no_shape_twice_and_ends_when_all_are_tried(tmp_path: Path) -> None:
    search = scheduler(study(budgets=(20_000,), trials=999), tmp_path)
    Simulation(search).run()
    explored = [r.spec for r in search.records if r.spec.stage is Stage.EXPLORE]
    (budget,) = search.budgets.values()
    assert {spec.shape for spec in explored} == set(budget.shapes)
    assert len(explored) == len(budget.shapes)


@pytest.mark.parametrize("events", [7, 90])
def test_a_killed_search_resumes_where_it_was(tmp_path: Path, events: int) -> None:
    """After a kill at any moment, no ended trial runs again and no trial is lost."""
    config = study()
    first = scheduler(config, tmp_path)
    Simulation(first).run(events=events)
    ended = {r.spec.trial: r for r in first.records}
    live = dict(first.live)

    second = scheduler(config, tmp_path)
    assert {r.spec.trial: r for r in second.records} == ended
    assert second.live == live
    for params, search in first.budgets.items():
        assert second.budgets[params].schedule == search.schedule

    Simulation(second).run()
    everything = Counter(r.spec.trial for r in second.records)
    assert set(everything.values()) == {1}
    explored = [r for r in second.records if r.spec.stage is Stage.EXPLORE]
    assert len(explored) == 2 * 10
    for trial, record in ended.items():
        kept = next(r for r in second.records if r.spec.trial == trial)
        assert kept.curve[: len(record.curve)] == record.curve
        assert kept == record or record.outcome is Outcome.STOPPED, "only a paused one goes on"


def test_a_killed_search_still_resumes_the_paused_trials_of_its_batch(tmp_path: Path) -> None:
    search = scheduler(config := study(budgets=(20_000,), trials_together=1), tmp_path)
    workers = Simulation(search, slots=1)
    (budget,) = search.budgets.values()
    while not any(paused_trial(budget.ended, choice) for choice in budget.confirmations):
        workers.run(events=1)
        assert not search.done
    rest = list(budget.confirmations)

    again = scheduler(config, tmp_path)

    assert list(again.budgets[20_000].confirmations) == rest


def test_a_rung_that_a_trial_passes_is_on_the_disk_before_the_trial_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint may be later than the rung, so that the trial does not report it again."""
    waits = list[tuple[bool, bool]]()

    def noted(path: Path, line: dict[str, Any], *, wait: bool = True) -> None:
        if line.get("event") == "report":
            waits.append((line["rung"] is not None, wait))
        append_line(path, line, wait=wait)

    monkeypatch.setattr("fathom.search.scheduling.scheduler.append_line", noted)
    Simulation(scheduler(study(budgets=(20_000,)), tmp_path)).run()
    assert {*waits} == {(True, True), (False, False)}


def test_the_same_events_give_the_same_search(tmp_path: Path) -> None:
    def specs(path: Path, config: StudyConfig) -> list[TrialSpec]:
        search = scheduler(config, path)
        Simulation(search, slots=1).run()
        return [r.spec for r in search.records]

    once = specs(tmp_path / "a", study(budgets=(20_000,)))
    assert once == specs(tmp_path / "b", study(budgets=(20_000,)))
    assert once != specs(tmp_path / "c", study(budgets=(20_000,), seed=1))


@pytest.mark.parametrize(
    "sampler",
    [
        Sampler.CURVE,
        pytest.param(Sampler.TPE, marks=pytest.mark.drill),
        pytest.param(Sampler.GP, marks=pytest.mark.drill),
    ],
)
def test_any_number_of_workers_and_any_order_of_arrival_give_the_same_trials_and_answers(
    sampler: Sampler, tmp_path: Path
) -> None:
    config = study(budgets=(20_000,), sampler=sampler, trials=14, trials_together=4)

    def found(workers: int) -> tuple[object, ...]:
        search = scheduler(config, tmp_path / f"{workers}")
        Simulation(search, slots=workers, seed=workers).run()
        trials = sorted((r.spec.trial, r.spec, r.tokens, r.outcome) for r in search.records)
        return trials, find_optima(search.records, seed=0)

    one = found(1)
    assert all(found(workers) == one for workers in (3, 32))


def test_trainings_that_are_decided_together_come_in_fewer_batches(tmp_path: Path) -> None:
    def batches(together: int) -> int:
        confirm = study().confirm.model_copy(update={"together": together, "depths": 8, "seeds": 4})
        search = scheduler(study(budgets=(20_000,), confirm=confirm), tmp_path / f"{together}")
        Simulation(search).run()
        lines = read_lines(search.folder.journal)
        return sum(line["event"] == "confirmations" for line in lines)

    assert batches(4) < batches(1)


def test_listeners_are_called_at_every_start_report_and_end(tmp_path: Path) -> None:
    heard: Counter[str] = Counter()
    search = scheduler(study(budgets=(20_000,)), tmp_path)
    search.listeners.append(lambda record: heard.update([str(record.outcome)]))
    Simulation(search, seed=random.Random(0).randrange(100)).run()
    ended = Counter(str(r.outcome) for r in search.records)
    assert heard[Outcome.FINISHED] == ended[Outcome.FINISHED]
    assert heard[Outcome.STOPPED] >= ended[Outcome.STOPPED], "who paused may have gone on"
    assert heard["None"] > len(search.records)


def lines_of(search: Scheduler, *events: str) -> list[dict[str, Any]]:
    """The lines of the journal about these events."""
    return [line for line in read_lines(search.folder.journal) if line["event"] in events]


def test_the_synchronous_rule_promotes_nobody_before_all_have_come(tmp_path: Path) -> None:
    stopping = StoppingConfig(always_finish=0, rule=StoppingMethod.SYNCHRONOUS)
    search = scheduler(study(budgets=(20_000,), stopping=stopping), tmp_path)
    Simulation(search, slots=2).run()
    lines = lines_of(search, "taken", "assigned", "closed", "confirmations")
    explored = lines[: next(n for n, line in enumerate(lines) if line["event"] == "confirmations")]
    rungs = search.budgets[20_000].schedule.rungs
    assert [line["rung"] for line in explored if line["event"] == "closed"] == [*rungs]
    for rung, beyond in itertools.pairwise((*rungs, search.budgets[20_000].schedule.horizon)):
        closing = next(line for line in explored if line.get("rung") == rung)
        to = [
            line["job"]["trial"]
            for line in explored
            if "job" in line and line["job"]["to"] == beyond
        ]
        assert to == closing["promoted"]


def test_budgets_never_influence_each_other(tmp_path: Path) -> None:
    def found(path: Path, *budgets: int) -> list[tuple[object, ...]]:
        search = scheduler(study(budgets=budgets), path)
        Simulation(search, slots=5, seed=len(budgets)).run()
        records = search.budgets[20_000].ended
        return sorted((r.spec.trial, r.spec, r.tokens, r.outcome) for r in records)

    assert found(tmp_path / "alone", 20_000) == found(tmp_path / "both", 20_000, 40_000)


def test_a_result_that_comes_early_is_stored_and_changes_nothing_before_it_is_taken(
    tmp_path: Path,
) -> None:
    config = study(budgets=(20_000,), stopping=StoppingConfig(always_finish=0))
    search = scheduler(config, tmp_path)
    (budget,) = search.budgets.values()
    specs = [spec for _ in range(7) if (spec := search.next_trial())]
    first, *others = specs
    workers = Simulation(search)
    for spec in reversed(others):
        while workers.report(spec.trial):
            pass
    assert {r.spec.trial for r in search.records} == {spec.trial for spec in others}
    assert search.next_trial() is None, "the first in virtual time has not come"
    assert all(not record.curve for record in budget.exploring())
    assert not lines_of(search, "taken")
    while workers.report(first.trial):
        pass
    assert search.next_trial()
    taken = [line["trial"] for line in lines_of(search, "taken")]
    assert taken == [spec.trial for spec in specs]


def test_what_a_trial_that_never_pauses_shows_later_is_not_seen_before_it_is_taken(
    tmp_path: Path,
) -> None:
    config = study(budgets=(20_000,), stopping=StoppingConfig(always_finish=0.999))
    search = scheduler(config, tmp_path)
    (budget,) = search.budgets.values()
    workers, spec = Simulation(search), search.next_trial()
    assert spec
    while workers.report(spec.trial):
        pass
    assert search.records[0].outcome is Outcome.FINISHED
    search.next_trial()
    seen = budget.exploring()[0]
    assert seen.outcome is None
    assert [*seen.rungs] == [min(search.records[0].rungs)]
    assert seen.tokens == min(seen.rungs)
    Simulation(search, running=search.budgets[20_000].running).run()
    assert {r.outcome for r in search.records} == {Outcome.FINISHED}


def test_a_failure_counts_from_its_planned_end_on(tmp_path: Path) -> None:
    config = study(budgets=(20_000,), stopping=StoppingConfig(always_finish=0))
    search = scheduler(config, tmp_path)
    (budget,) = search.budgets.values()
    specs = [spec for _ in range(7) if (spec := search.next_trial())]
    search.end(specs[1].trial, Outcome.FAILED, "its worker died")
    search.end(specs[2].trial, Outcome.OUT_OF_MEMORY, "its worker was killed twice")
    assert search.next_trial() is None
    assert budget.schedule.over == set()
    workers = Simulation(search, running=[s.trial for s in specs[3:]] + [specs[0].trial])
    workers.run()
    assert search.done
    assert {specs[1].trial, specs[2].trial} <= budget.schedule.over
    (rung, *_), lost = budget.schedule.rungs, {specs[1].trial, specs[2].trial}
    assert not lost & budget.schedule.standing[rung].keys()
    explored = [r for r in search.records if r.spec.stage is Stage.EXPLORE]
    assert len(budget.schedule.standing[rung]) == len(explored) - 2


def test_an_explored_budget_plans_a_batch_once_the_last_of_the_one_before_is_taken(
    tmp_path: Path,
) -> None:
    search = scheduler(study(budgets=(20_000,)), tmp_path)
    Simulation(search, slots=4).run()
    lines = list(read_lines(search.folder.journal))
    outstanding, batches = 0, 0
    for line in lines:
        outstanding += (line["event"] == "assigned") - (line["event"] == "taken")
        batches += line["event"] == "confirmations"
        assert line["event"] != "confirmations" or not outstanding
        assert line["event"] != "closed" or not (outstanding or batches)
    assert batches > 1
    horizon = search.budgets[20_000].schedule.horizon
    confirming = lines[next(n for n, r in enumerate(lines) if r["event"] == "confirmations") :]
    assert {line["job"]["to"] for line in confirming if "job" in line} == {horizon}


def test_confirming_trials_that_no_worker_has_begun_are_waiting(tmp_path: Path) -> None:
    search = scheduler(study(budgets=(20_000,)), tmp_path)
    (budget,), workers = search.budgets.values(), Simulation(search, slots=1)
    while not budget.explored:
        assert budget.waiting == 0
        workers.run(events=1)
    planned = len(budget.schedule.jobs) + len(budget.confirmations)
    assert planned > 1
    assert budget.waiting == planned - 1, "one is under way"


def test_workers_take_the_first_job_in_virtual_time_and_a_retry_keeps_its_place(
    tmp_path: Path,
) -> None:
    search = scheduler(study(budgets=(20_000,)), tmp_path)
    specs = [spec for _ in range(3) if (spec := search.next_trial())]
    assert [spec.trial[-3:] for spec in specs] == ["000", "001", "002"]
    jobs = dict(search.budgets[20_000].schedule.jobs)
    search.restart(specs[1].trial)
    again = search.next_trial()
    assert again == specs[1]
    assert search.budgets[20_000].schedule.jobs == jobs
    assert len(lines_of(search, "started")) == 3, "it has started before"


def test_a_search_that_is_asked_for_no_trial_takes_no_result(tmp_path: Path) -> None:
    """As at a cap of hours or money: trials under way save and end, and nothing is decided."""
    search = scheduler(study(), tmp_path)
    specs = [spec for _ in range(14) if (spec := search.next_trial())]
    workers = Simulation(search)
    for spec in specs:
        while workers.report(spec.trial):
            pass
    assert len(search.records) == len(specs)
    assert not lines_of(search, "taken")


def test_every_decision_is_on_the_disk_before_it_takes_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noted(path: Path, line: dict[str, Any], *, wait: bool = True) -> None:
        append_line(path, line, wait=wait)
        if path != search.folder.journal:
            return
        schedule = search.budgets[20_000].schedule
        if line["event"] == "assigned":
            assert line["job"]["trial"] not in schedule.jobs
        if line["event"] == "taken":
            assert line["trial"] in schedule.jobs
        if line["event"] == "closed":
            assert line["rung"] not in schedule.closed
        assert wait or line["event"] == "report"

    search = scheduler(study(budgets=(20_000,)), tmp_path)
    monkeypatch.setattr("fathom.search.scheduling.scheduler.append_line", noted)
    Simulation(search).run()
    assert {line["event"] for line in read_lines(search.folder.journal)} == {
        *("assigned", "taken", "closed", "confirmations"),
        *("started", "resumed", "report"),
    }


def test_what_is_journaled_is_not_decided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run(events=60)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("decided again")

    for name in ("ranked", "promoted"):
        monkeypatch.setattr(HalvingRule, name, refuse)
    monkeypatch.setattr(ShapeSampler, "draw", refuse)
    again = scheduler(study(), tmp_path)
    for params, budget in search.budgets.items():
        assert again.budgets[params].schedule == budget.schedule


def test_a_search_of_an_earlier_version_is_read_and_not_resumed(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run(events=60)
    lines = lines_of(search, "started", "resumed", "report")
    search.folder.journal.unlink()
    for line in lines:
        append_line(search.folder.journal, line)
    assert read_run(search.folder, search.config).unfinished(search.config.budgets)
    with pytest.raises(RunFolderError, match=r"an earlier version, .* `fathom analyse`"):
        scheduler(study(), tmp_path)


def test_a_resumed_trial_that_passes_its_rung_again_continues(tmp_path: Path) -> None:
    search = scheduler(study(budgets=(20_000,)), tmp_path)
    Simulation(search, slots=1).run()
    lines = list(read_lines(search.folder.journal))
    starts = Counter(line["trial"] for line in lines if line["event"] in ("started", "resumed"))
    rungs = rung_steps(search.config, next(iter(search.budgets.values())).budget)
    assert max(starts.values()) <= 1 + len(rungs), "at each rung it pauses once at most"


@pytest.mark.parametrize("sampler", Sampler)
def test_a_search_without_feed_forward_finds_the_planted_depth(
    tmp_path: Path, sampler: Sampler
) -> None:
    space = {"depth": [1, 12], "feed_forward": False, "n_heads": 2, "head_dim": 4}
    config = parse(
        yaml.safe_dump(
            yaml.safe_load(TWO_BUDGETS) | {"budgets": ["20k"], "space": space, "tolerance": 0.05}
        )
    )
    search = scheduler(config.model_copy(update={"sampler": sampler}), tmp_path)
    Simulation(search).run()
    assert {record.spec.shape.d_ff for record in search.records} == {0}
    for optimum in find_optima(search.records, seed=0):
        assert optimum.best_ff_ratio is None
        assert isinstance(optimum, Located)
        assert optimum.interval[0] <= 4 <= optimum.interval[1]
