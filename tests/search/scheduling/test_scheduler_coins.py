"""A search whose trainings spend equal operations or seconds, without Ray and without training."""

import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from fathom.models.spend import Coin, Spend
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.curve.joint_curve import incumbent_depth
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.conclusion.findings import optimum_row
from fathom.search.contract.studies import study_answers
from fathom.search.export.best import best_yaml, read_best
from fathom.search.formatting import rounded_count, spend_text
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts.trials import learning_curves
from fathom.search.report.pages.page import page
from fathom.search.report.terminal.answer_tables import print_answers
from fathom.search.report.words.text import answer, answer_row
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.auditing import audit_stopping
from fathom.search.scheduling.halving import halving_rule
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.own_records import read_records
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.step_times import freeze_steps, frozen_steps
from fathom.search.tracking.writing.metrics import budget_params, trial_params
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.reporting import visible
from tests.support.timed import seconds_of, timed_scheduler, times_of

SECONDS = 60.0
AMOUNTS = {Coin.FLOPS: 1e12, Coin.SECONDS: SECONDS}
TEXTS = {Coin.FLOPS: "1T FLOPs", Coin.SECONDS: "60 seconds"}


def config_of(coin: Coin) -> StudyConfig:
    given = {"tokens": None, "tokens_per_parameter": None, coin.key: AMOUNTS[coin]}
    return study(trials=12, **given)


CONFIG = config_of(Coin.SECONDS)


def begun(path: Path, config: StudyConfig = CONFIG) -> RunFolder:
    """A run folder, with the step times of a study of seconds."""
    folder = RunFolder(path)
    folder.create()
    write_fingerprint(folder, fingerprint_of(config, data="a text"))
    if config.train_seconds:
        spaces = {b.params: feasible_shapes(config, b, 256) for b in expand_budgets(config)}
        freeze_steps(folder, times_of(spaces))
    return folder


def simulation(folder: RunFolder, config: StudyConfig = CONFIG) -> Simulation:
    if not config.train_seconds:
        return Simulation(scheduler(config, folder.path))
    search = Simulation(timed_scheduler(config, folder.path))
    search.step_seconds = lambda spec: seconds_of(spec.shape)
    return search


@dataclass(frozen=True)
class Searched:
    """A search that has ended, and its conclusion."""

    coin: Coin
    folder: RunFolder
    found: Conclusion

    def records(self, outcome: Outcome) -> list[TrialRecord]:
        return [record for record in self.found.records if record.outcome is outcome]

    def assert_spent(self, record: TrialRecord, share: float, steps: int) -> None:
        """Asserts that a trial has spent a share of the amount: FLOPs but for some steps."""
        amount, last = share * AMOUNTS[self.coin], record.curve[-1]
        if self.coin is Coin.SECONDS:
            assert last.train_seconds == pytest.approx(amount, rel=0.05)
        else:
            assert 0 <= amount - record.train_flops < steps * record.train_flops / last.step


@pytest.fixture(scope="module", params=[Coin.FLOPS, Coin.SECONDS])
def searched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searched:
    config = config_of(request.param)
    folder = begun(tmp_path_factory.mktemp("searched"), config)
    simulation(folder, config).run()
    return Searched(request.param, folder, conclude(read_records(folder, config), config))


@pytest.fixture
def found(searched: Searched) -> Conclusion:
    return searched.found


@pytest.fixture
def folder(searched: Searched) -> RunFolder:
    return searched.folder


in_seconds = pytest.mark.parametrize("searched", [Coin.SECONDS], indirect=True)


def of_first_budget(found: Conclusion) -> list[TrialRecord]:
    return list(found.records_of(found.optima[0].budget))


def test_finished_trials_have_spent_the_amount_on_tokens_of_their_own(searched: Searched) -> None:
    finished = searched.records(Outcome.FINISHED)
    assert len({record.tokens for record in finished}) > 3
    for record in finished:
        searched.assert_spent(record, 1, steps=1)
        assert record.spec.spend == Spend(AMOUNTS[searched.coin], searched.coin)


def test_paused_trials_have_spent_the_share_of_their_rung(searched: Searched) -> None:
    paused = searched.records(Outcome.STOPPED)
    assert len({record.tokens for record in paused}) > len({max(r.rungs) for r in paused})
    for record in paused:
        share = max(record.rungs) / record.spec.shared_horizon
        assert record.tokens / record.spec.horizon_tokens == pytest.approx(share, rel=0.02)
        searched.assert_spent(record, share, steps=2)


def test_a_search_that_is_cut_off_ends_with_the_same_trials(
    searched: Searched, tmp_path: Path
) -> None:
    config = config_of(searched.coin)
    again = begun(tmp_path, config)
    first = simulation(again, config)
    first.run(events=60)
    rest = simulation(again, config)
    rest.evaluations = first.evaluations
    rest.run()

    def results(folder: RunFolder) -> dict[str, object]:
        records = read_records(folder, config)
        return {r.spec.trial: (r.spec, r.outcome, r.rungs, r.loss) for r in records}

    assert results(again) == results(searched.folder)


def test_trials_that_evaluate_one_after_the_other_are_forecast_together(tmp_path: Path) -> None:
    search = simulation(begun(tmp_path))
    for _ in range(20):
        search.run(events=1)
        assert any(record.curve for record in search.scheduler.live.values())
        assert incumbent_depth([*search.scheduler.records, *search.scheduler.live.values()])


@in_seconds
def test_records_of_other_step_times_are_refused(folder: RunFolder, tmp_path: Path) -> None:
    other = begun(tmp_path)
    other.records.write_bytes(folder.records.read_bytes())
    assert read_records(other, CONFIG)
    steps = frozen_steps(other, CONFIG)
    assert steps
    halved = {
        size: tuple(type(shape)(shape.depth, shape.ln_ff_ratio, shape.seconds / 2) for shape in of)
        for size, of in steps.budgets.items()
    }
    freeze_steps(other, type(steps)(device=steps.device, at_once=1, budgets=halved))
    with pytest.raises(ValueError, match="with horizon_tokens"):
        read_records(other, CONFIG)


def test_the_answer_says_the_amount_and_the_tokens_of_its_shape(searched: Searched) -> None:
    coin, text = searched.coin, TEXTS[searched.coin]
    for optimum in searched.found.optima:
        assert isinstance(optimum, Located)
        assert spend_text(optimum.spend) == text
        assert f", {text}, " in answer(optimum)
        assert answer_row(optimum)["tokens"] == f"{rounded_count(optimum.tokens)} ({text})"
        row = optimum_row(optimum)
        assert {row[c.name_in_records] for c in AMOUNTS} == {AMOUNTS[coin], None}
        assert optimum.shape is not None
        of_a_token = optimum.shape.train_flops_per_token
        if coin is Coin.SECONDS:
            of_a_token = seconds_of(optimum.shape) / (8 * 32)
        assert row["tokens"] * of_a_token == pytest.approx(AMOUNTS[coin], rel=0.05)


@in_seconds
def test_terminal_page_and_program_are_told_how_far_trials_were_off(found: Conclusion) -> None:
    terminal = Console(file=io.StringIO(), width=300)
    print_answers(found, terminal)
    assert isinstance(terminal.file, io.StringIO)
    for text in (terminal.file.getvalue(), visible(page(found, ()))):
        assert "60 s of training steps on " in text
        assert "in the median (" in text
    for stated in study_answers(found, Path("runs/s")):
        assert stated.evidence
        told = stated.evidence.seconds
        assert told
        assert (told.asked, told.trials > 3) == (SECONDS, True)
        assert abs(told.median_off) <= abs(told.worst_off) < 0.05
        assert stated.question.horizon
        assert (stated.question.horizon.amount, stated.question.horizon.unit) == (60.0, "seconds")


def test_learning_curves_are_over_the_amount_with_one_line_a_rung(searched: Searched) -> None:
    records, optimum = of_first_budget(searched.found), searched.found.optima[0]
    chart = learning_curves(records, optimum)
    assert chart is not None
    assert chart.x.label == f"training {searched.coin.value}"
    rungs = {rung for record in records for rung in record.rungs}
    assert sum(mark.name == "rung" for mark in chart.marks) == len(rungs)


def test_an_audit_names_a_rung_by_its_share(searched: Searched) -> None:
    records = of_first_budget(searched.found)
    for audit in audit_stopping(records, halving_rule(CONFIG.stopping)):
        assert audit.place.endswith(f"% of the {searched.coin.value}")
        assert audit.sentence.startswith(f"At {audit.place}: ")


def test_trials_of_a_budget_have_the_same_parameters_in_mlflow_beside_their_tokens(
    searched: Searched,
) -> None:
    specs = [record.spec for record in of_first_budget(searched.found)]
    amount = (searched.coin.key, f"{AMOUNTS[searched.coin]:g}")
    assert {tuple(budget_params(spec).items()) for spec in specs} == {
        (("budget", "20000"), ("count", specs[0].count.value), amount)
    }
    assert all(trial_params(spec)["horizon_tokens"] == str(spec.horizon_tokens) for spec in specs)


@in_seconds
def test_an_exported_shape_is_trained_on_the_tokens_that_it_had(
    found: Conclusion, tmp_path: Path
) -> None:
    path = tmp_path / "best.yaml"
    path.write_text(best_yaml(found))
    for optimum in found.optima:
        best = read_best(path, str(optimum.budget))
        assert (best.config.train_seconds, best.config.tokens) == (None, optimum.tokens)
        (own,) = (b for b in expand_budgets(best.config) if b.params == optimum.budget)
        assert own.of_shape(best.shape).tokens == optimum.tokens
    damaged = re.sub(r"^  tokens: \d+", "  tokens: many", best_yaml(found), flags=re.MULTILINE)
    path.write_text(damaged)
    with pytest.raises(ConfigError, match="must be above 0, got 'many'"):
        read_best(path, "20k")
