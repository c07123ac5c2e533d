"""A search of size and depth at equal seconds, without Ray and without training."""

from pathlib import Path

import pytest

from benchmarks.simulate.driver import VOCAB_SIZE, scheduler_in
from fathom.models.shape import Count
from fathom.models.spend import Coin, Spend
from fathom.search.analysis.answer.optimum import Located
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.contract.studies import study_reply
from fathom.search.export.best import best_yaml, read_best
from fathom.search.records import Outcome
from fathom.search.report.pages.page import page
from fathom.search.report.words.text import seconds_text
from fathom.search.run_folder import RunFolder
from fathom.search.study.file.errors import PlanError
from fathom.search.study.file.study_file import changed
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.own_records import read_records
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.plan import plan_study, study_notes, with_step_times
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.sized_times import sizes_to_time, times_by_budget
from fathom.search.study.timing.step_times import freeze_steps, frozen_steps
from fathom.search.tracking.writing.publishing import RunResult
from tests.support.dry_run import MACHINE, Simulation
from tests.support.free_size import FREE_SIZE_SECONDS as CONFIG
from tests.support.free_size import SURFACE
from tests.support.timed import seconds_of, times_of

SECONDS = 20.0


def begun(path: Path) -> RunFolder:
    """A run folder whose step times are measured."""
    folder = RunFolder(path)
    folder.create()
    write_fingerprint(folder, fingerprint_of(CONFIG, data="a text"))
    shapes = feasible_shapes(CONFIG, expand_budgets(CONFIG)[0], VOCAB_SIZE)
    freeze_steps(folder, times_of({size: tuple(s) for size, s in sizes_to_time(shapes).items()}))
    return folder


def searched(
    folder: RunFolder, events: int = 10**9, before: Simulation | None = None
) -> Simulation:
    budgets = expand_budgets(CONFIG, times_by_budget(frozen_steps(folder, CONFIG), CONFIG))
    spaces = {budget: feasible_shapes(CONFIG, budget, VOCAB_SIZE) for budget in budgets}
    simulation = Simulation(scheduler_in(folder.path, CONFIG, spaces), loss=SURFACE)
    simulation.step_seconds = lambda spec: seconds_of(spec.shape)
    simulation.evaluations = before.evaluations if before else {}
    simulation.run(events=events)
    return simulation


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = begun(tmp_path_factory.mktemp("seconds"))
    searched(folder)
    return folder


@pytest.fixture(scope="module")
def found(folder: RunFolder) -> Conclusion:
    return conclude(read_records(folder, CONFIG), CONFIG)


@pytest.fixture(scope="module")
def optimum(found: Conclusion) -> Located:
    (optimum,) = found.optima
    assert isinstance(optimum, Located)
    return optimum


def test_trainings_of_any_size_take_their_seconds(found: Conclusion) -> None:
    finished = [record for record in found.records if record.outcome is Outcome.FINISHED]
    assert len({record.spec.shape.params_total for record in finished}) > 3
    for record in finished:
        assert record.curve[-1].train_seconds == pytest.approx(SECONDS, rel=0.15)
        assert record.spec.spend == Spend(SECONDS, Coin.SECONDS)


def test_people_and_programs_are_told_the_seconds(folder: RunFolder, found: Conclusion) -> None:
    assert seconds_text(found).startswith("20 s of training steps on ")
    assert " of 20 seconds took " in seconds_text(found)
    assert "seconds: training steps of a whole training" in page(found, ())
    (answer,) = study_reply("run", [RunResult(folder, found)]).answers
    assert answer.question.count == "train_seconds"
    assert answer.question.horizon
    assert (answer.question.horizon.amount, answer.question.horizon.unit) == (20, "seconds")


def test_an_exported_shape_is_trained_on_the_tokens_that_it_had(
    found: Conclusion, optimum: Located, tmp_path: Path
) -> None:
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(found))
    best = read_best(path, "20s")
    assert best.shape == optimum.shape
    assert (best.config.count, best.budget) == (Count.TOTAL, best.shape.params_total)
    (budget,) = expand_budgets(best.config)
    assert budget.of_shape(best.shape).tokens == optimum.tokens


def test_a_plan_says_that_tokens_are_estimates_and_too_few_seconds_are_refused() -> None:
    plans = plan_study(CONFIG, VOCAB_SIZE, MACHINE)
    assert any("gives each depth 20 s of such steps" in note for note in study_notes(CONFIG))
    short = changed(CONFIG, {"budgets": [1]})
    by_size = {size: tuple(s) for size, s in sizes_to_time(plans[0].shapes).items()}
    slow = times_of(by_size)
    slow = type(slow)(
        device=slow.device,
        at_once=1,
        budgets={
            size: tuple(type(t)(t.depth, t.ln_ff_ratio, 20 * t.seconds) for t in timed)
            for size, timed in slow.budgets.items()
        },
    )
    with pytest.raises(PlanError, match="`budgets` must pay for 100 steps of every shape"):
        with_step_times(
            short, plan_study(short, VOCAB_SIZE, MACHINE), times_by_budget(slow, short), MACHINE
        )
