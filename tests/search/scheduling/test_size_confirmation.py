"""A search of size and depth at equal operations, without Ray and without training."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fathom.models.spend import Coin
from fathom.search.analysis.answer.finding import find_optimum
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind, TooFewSizes
from fathom.search.analysis.laws.amount_law import AmountLaw, PowerOfAmount
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.conclusion.findings import flat_optimum_row
from fathom.search.contract.studies import study_reply
from fathom.search.export.best import best_yaml, read_best
from fathom.search.records import Outcome
from fathom.search.report.pages.card import card_text
from fathom.search.report.pages.page import page
from fathom.search.report.pages.writer import make_charts
from fathom.search.report.words.sizes import size_lines
from fathom.search.report.words.text import advice, question
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.scheduling.size_confirmation import size_confirmations
from fathom.search.scheduling.study_limits import study_limits
from fathom.search.study.file.study_file import dump
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.own_records import read_records
from fathom.search.tracking.writing.metrics import budget_metrics
from fathom.search.tracking.writing.publishing import RunResult
from fathom.search.words import cause_text
from tests.support.command_line import assert_refused, here
from tests.support.dry_run import Simulation, scheduler
from tests.support.free_size import FLOPS, FREE_SIZE, SURFACE
from tests.support.reporting import visible


def searched(path: Path, events: int = 10**9, before: Simulation | None = None) -> Simulation:
    simulation = Simulation(scheduler(FREE_SIZE, path), loss=SURFACE)
    simulation.evaluations = before.evaluations if before else {}
    simulation.run(events=events)
    return simulation


def begun(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.create()
    write_fingerprint(folder, fingerprint_of(FREE_SIZE, data="a text"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = begun(tmp_path_factory.mktemp("free"))
    searched(folder.path)
    return folder


@pytest.fixture(scope="module")
def found(folder: RunFolder) -> Conclusion:
    return conclude(read_records(folder, FREE_SIZE), FREE_SIZE)


@pytest.fixture(scope="module")
def optimum(found: Conclusion) -> Located:
    (optimum,) = found.optima
    assert isinstance(optimum, Located)
    return optimum


def test_size_and_depth_are_found_together(optimum: Located) -> None:
    size = optimum.best_size
    assert size
    assert size.size
    assert size.interval
    assert size.verdict.kind.settled
    assert optimum.kind.settled
    assert 2 <= optimum.optimal_depth <= 4
    assert size.interval[0] <= 66_000
    assert size.interval[1] >= 54_000
    assert optimum.shape
    assert SURFACE.final(optimum.shape) < 2.005


def test_trainings_of_any_size_spend_the_flops_but_for_a_step(found: Conclusion) -> None:
    finished = [record for record in found.records if record.outcome is Outcome.FINISHED]
    assert len({record.tokens for record in finished}) > 3
    for record in finished:
        of_a_step = record.train_flops / record.curve[-1].step
        assert 0 <= FLOPS - record.train_flops < of_a_step


def test_exploring_spreads_over_sizes_and_depths(found: Conclusion) -> None:
    shapes = [record.spec.shape for record in found.records]
    assert {1, 6} <= {shape.depth for shape in shapes}
    sizes = [shape.params_total for shape in shapes]
    assert min(sizes) < 21_000
    assert max(sizes) > 190_000


def test_a_search_that_is_cut_off_ends_with_the_same_trials(
    folder: RunFolder, tmp_path: Path
) -> None:
    again = begun(tmp_path)
    first = searched(tmp_path, events=40)
    searched(tmp_path, before=first)

    def results(folder: RunFolder) -> dict[str, object]:
        records = read_records(folder, FREE_SIZE)
        return {r.spec.trial: (r.spec, r.outcome, r.rungs, r.loss) for r in records}

    assert results(again) == results(folder)


@pytest.mark.drill
def test_any_number_of_workers_gives_the_same_trials_and_answer(
    folder: RunFolder, tmp_path: Path
) -> None:
    def trials(folder: RunFolder) -> object:
        records = read_records(folder, FREE_SIZE)
        return sorted((r.spec.trial, r.spec, r.tokens, r.outcome) for r in records)

    three = conclude(read_records(folder, FREE_SIZE), FREE_SIZE).optima
    for workers in (1, 2, 8):
        other = begun(tmp_path / f"{workers}")
        Simulation(scheduler(FREE_SIZE, other.path), SURFACE, slots=workers, seed=workers).run()
        assert trials(other) == trials(folder)
        assert conclude(read_records(other, FREE_SIZE), FREE_SIZE).optima == three


def test_too_few_sizes_are_named_as_what_a_surface_lacks(found: Conclusion) -> None:
    by_depth = {r.spec.shape.depth: r for r in found.records if r.loss is not None}
    optimum = find_optimum(list(by_depth.values())[:3], seed=0)
    assert isinstance(optimum.verdict.cause, TooFewSizes)
    assert "too few sizes finished" in cause_text(optimum.verdict.cause)


def test_nothing_more_is_trained_once_both_are_settled(found: Conclusion) -> None:
    shapes = tuple({record.spec.shape for record in found.records})
    assert size_confirmations(found.records, study_limits(FREE_SIZE, shapes)) == ()


def test_programs_and_files_are_told_the_size(
    found: Conclusion, optimum: Located, folder: RunFolder, tmp_path: Path
) -> None:
    size = optimum.best_size
    assert size is not None
    reply = study_reply("run", [RunResult(folder, found)])
    assert [stated.size for stated in reply.sizes] == [size.size]
    assert reply.answers[0].question.count == "train_flops"
    assert budget_metrics(optimum)["best_size"] == size.size
    assert flat_optimum_row(optimum)["size_interval_low"] == size.interval[0]  # type: ignore[index]
    best = tmp_path / "best.yaml"
    best.write_text(best_yaml(found))
    assert f"best_size: {size.size}" in best.read_text()
    assert read_best(best, None).shape == optimum.shape


def test_commands_say_the_size_or_why_they_cannot(folder: RunFolder, tmp_path: Path) -> None:
    write_atomically(folder.config, dump(FREE_SIZE))
    run = folder.path
    assert "100B FLOPs: best size " in here("analyse", run).stdout
    assert_refused(here("compare", run, run), "compares depths of one size")
    assert_refused(here("latency", run), "compares depths of one size")
    assert_refused(here("ask", "--flops", "1e12", "--law", run), "since it fixes FLOPs")
    new = tmp_path / "new.yaml"
    assert_refused(here("init", new, "--data", "stdlib", "--from", run), "copy its config.yaml")


@pytest.mark.parametrize(
    ("budget", "length"), [("100B", ("--tokens", "1k")), ("20s", ()), ("20s", ("--tokens", "1k"))]
)
def test_a_best_shape_is_trained(
    found: Conclusion, tmp_path: Path, budget: str, length: tuple[str, ...]
) -> None:
    text, corpus = tmp_path / "best.yaml", tmp_path / "text.txt"
    corpus.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    known = best_yaml(found).replace("corpus: stdlib", f"corpus: {corpus}")
    if budget == "20s":
        known = known.replace("train_flops", "train_seconds").replace(str(FLOPS), "20")
    text.write_text(re.sub(r"(?m)^  tokens: \d+", "  tokens: 2048", known))
    done = here("train", text, "--params", budget, *length, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "weights in" in done.stdout


def test_people_are_told_the_size(found: Conclusion, optimum: Located) -> None:
    assert optimum.best_size
    assert question(optimum) == "100B FLOPs, any size"
    first, *_ = size_lines(optimum.best_size)
    assert first.startswith("100B FLOPs: best size ")
    assert first[1:] in card_text(found)
    charts = {chart.key: chart for chart in make_charts(found)}
    drawn = charts[f"loss-over-sizes-{FLOPS}"]
    shown = sum(len(mark.x) for mark in drawn.marks) - len(optimum.best_size.region) - len("*")
    assert shown == len([record for record in found.records if record.curve])


def test_advice_names_a_size_beyond_which_a_better_one_may_lie(optimum: Located) -> None:
    size = optimum.best_size
    assert size
    assert "(size: " not in advice(optimum)
    edge = replace(size, verdict=replace(size.verdict, kind=Kind.EDGE))
    assert "parameters (size: edge)" in advice(replace(optimum, best_size=edge))


def test_the_page_has_the_rule_of_the_amounts_and_their_law_once_it_is_known(
    found: Conclusion,
) -> None:
    before = visible(page(found, ()))
    assert "FLOPs: operations of a whole training, of models of any size" in before
    assert "amounts, size grows" not in before
    assert "fathom latency" not in before, "it compares depths of one size"
    powers = [
        PowerOfAmount(quantity=name, exponent=0.5, interval=(0.4, 0.6), middle=1e5)
        for name in ("size", "tokens", "depth")
    ]
    law = AmountLaw(coin=Coin.FLOPS, amounts=3, middle=1e11, powers=tuple(powers))
    settled = replace(found)
    vars(settled)["amount_law"] = law
    assert "Over 3 amounts, size grows as FLOPs^0.50 [0.40 to 0.60], " in visible(page(settled, ()))


def test_the_region_of_both_holds_the_named_shape(optimum: Located) -> None:
    assert optimum.best_size
    assert optimum.shape
    depths, sizes = (
        {d for _, d in optimum.best_size.region},
        [s for s, _ in optimum.best_size.region],
    )
    assert optimum.optimal_depth in depths
    assert np.log(min(sizes)) - 0.2 < np.log(optimum.shape.params_total) < np.log(max(sizes)) + 0.2
