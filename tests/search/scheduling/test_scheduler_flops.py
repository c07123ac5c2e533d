"""A search whose trainings spend equal operations, without Ray and without training."""

from pathlib import Path

import pytest

from fathom.search.analysis.answer.optimum import Located
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.conclusion.findings import optimum_row
from fathom.search.formatting import spend_text
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.charts.trials import learning_curves
from fathom.search.report.words.text import answer
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.auditing import audit_stopping
from fathom.search.scheduling.halving import halving_rule
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.own_records import read_records
from fathom.search.tracking.writing.metrics import budget_params, trial_params
from tests.support.dry_run import Simulation, scheduler, study

FLOPS = 1e12
CONFIG: StudyConfig = study(tokens=None, tokens_per_parameter=None, train_flops=FLOPS, trials=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder(tmp_path_factory.mktemp("flops"))
    folder.create()
    write_fingerprint(folder, fingerprint_of(CONFIG, data="a text"))
    Simulation(scheduler(CONFIG, folder.path)).run()
    return folder


@pytest.fixture(scope="module")
def found(folder: RunFolder) -> Conclusion:
    return conclude(read_records(folder, CONFIG), CONFIG)


def of_first_budget(found: Conclusion) -> list[TrialRecord]:
    return list(found.records_of(found.optima[0].budget))


def test_finished_trials_have_spent_the_flops_but_for_a_step(found: Conclusion) -> None:
    finished = [record for record in found.records if record.outcome is Outcome.FINISHED]
    assert len({record.tokens for record in finished}) > 3
    for record in finished:
        of_a_step = record.train_flops / record.curve[-1].step
        assert 0 <= FLOPS - record.train_flops < of_a_step


def test_paused_trials_have_spent_the_share_of_their_rung(found: Conclusion) -> None:
    paused = [record for record in found.records if record.outcome is Outcome.STOPPED]
    assert len({record.tokens for record in paused}) > len({max(r.rungs) for r in paused})
    for record in paused:
        share = max(record.rungs) / record.spec.shared_horizon
        of_a_step = record.train_flops / record.curve[-1].step
        assert 0 <= share * FLOPS - record.train_flops < 2 * of_a_step


def test_a_search_that_is_cut_off_ends_with_the_same_trials(
    folder: RunFolder, tmp_path: Path
) -> None:
    again = RunFolder(tmp_path)
    again.create()
    write_fingerprint(again, fingerprint_of(CONFIG, data="a text"))
    first = Simulation(scheduler(CONFIG, tmp_path))
    first.run(events=60)
    rest = Simulation(scheduler(CONFIG, tmp_path))
    rest.evaluations = first.evaluations
    rest.run()

    def results(folder: RunFolder) -> dict[str, object]:
        records = read_records(folder, CONFIG)
        return {r.spec.trial: (r.spec, r.outcome, r.rungs, r.loss) for r in records}

    assert results(again) == results(folder)


def test_the_answer_says_flops_and_the_tokens_of_its_shape(found: Conclusion) -> None:
    for optimum in found.optima:
        assert isinstance(optimum, Located)
        assert spend_text(optimum.spend) == "1T FLOPs"
        assert ", 1T FLOPs, " in answer(optimum)
        row = optimum_row(optimum)
        assert row["flops_to_spend"] == FLOPS
        assert optimum.shape is not None
        assert row["tokens"] * optimum.shape.train_flops_per_token == pytest.approx(FLOPS, rel=0.05)


def test_learning_curves_are_over_the_flops_with_one_line_a_rung(found: Conclusion) -> None:
    records, optimum = of_first_budget(found), found.optima[0]
    chart = learning_curves(records, optimum)
    assert chart is not None
    assert chart.x.label == "training FLOPs"
    rungs = {rung for record in records for rung in record.rungs}
    assert sum(mark.name == "rung" for mark in chart.marks) == len(rungs)


def test_an_audit_names_a_rung_by_its_share(found: Conclusion) -> None:
    for audit in audit_stopping(of_first_budget(found), halving_rule(CONFIG.stopping)):
        assert audit.place.endswith("% of the FLOPs")
        assert audit.sentence.startswith(f"At {audit.place}: ")


def test_trials_of_a_budget_have_the_same_parameters_in_mlflow_beside_their_tokens(
    found: Conclusion,
) -> None:
    specs = [record.spec for record in of_first_budget(found)]
    assert {tuple(budget_params(spec).items()) for spec in specs} == {
        (("budget", "20000"), ("count", specs[0].count.value), ("train_flops", "1e+12"))
    }
    assert all(trial_params(spec)["horizon_tokens"] == str(spec.horizon_tokens) for spec in specs)
