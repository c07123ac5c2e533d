"""The answers of a study for programs: numbers as they are, and the command that comes next."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.models.spend import Coin, Spend
from fathom.search.analysis.answer import verdict as v
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.contract.studies import next_command, study_answers, study_reply
from fathom.search.run_folder import RunFolder
from fathom.search.tracking.writing.publishing import RunResult
from tests.support.contract import printed_values
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.optima import located

EDGE = v.BestAtEnd(8, deeper=True)
RUN = Path("some/where")


@pytest.fixture(scope="module")
def conclusion(tmp_path_factory: pytest.TempPathFactory) -> Conclusion:
    search = scheduler(study(), tmp_path_factory.mktemp("run"))
    Simulation(search).run()
    return conclude(search.records, search.config)


def test_numbers_are_those_of_the_conclusion_to_the_last_digit(conclusion: Conclusion) -> None:
    result = RunResult(RunFolder(RUN), conclusion)
    answers = printed_values(study_reply("report", [result]))["answers"]

    for optimum, answer in zip(map(located, conclusion.optima), answers, strict=True):
        found = answer["answer"]
        assert found["depth"] == optimum.optimal_depth
        assert found["interval"] == list(optimum.interval)
        assert (found["loss"], found["chance_of_cost"]) == (optimum.loss, optimum.chance_of_cost)
        told = [(each["depth"], each["probability"]) for each in found["probabilities"]]
        assert told == list(optimum.probabilities)
        assert answer["evidence"]["noise"] == optimum.noise
        assert [cost["nats"] for cost in answer["costs"]] == [cost.nats for cost in optimum.costs]


def test_the_command_of_a_settled_depth_trains_it(conclusion: Conclusion) -> None:
    settled = [optimum for optimum in conclusion.optima if optimum.kind.settled]
    assert settled
    for optimum in settled:
        command = next_command(optimum, conclusion, RUN)
        assert command is not None
        assert command.startswith(f"fathom train {RUN} --params ")


@pytest.mark.parametrize(
    ("remedy", "setting"),
    [
        (v.Depths(4, 32), "space.depth=[4, 32]"),
        (v.Seeds(5), "confirm.seeds=5"),
        (v.TheseDepths((6,), (4, 8)), "space.depth=[4, 6, 8]"),
        (v.Keys((("trials", 40),)), "trials=40"),
    ],
)
def test_the_command_of_an_open_depth_searches_with_the_remedy_beside_the_run(
    conclusion: Conclusion, remedy: v.Remedy, setting: str
) -> None:
    optimum = replace(conclusion.optima[0], verdict=v.Verdict(v.Kind.EDGE, EDGE, remedy))

    typed = shlex.split(next_command(optimum, conclusion, RUN) or "")

    assert typed[:3] == ["fathom", "run", str(RUN / "config.yaml")]
    assert setting in typed
    assert f"study={conclusion.config.study}-2" in typed
    assert typed[-2:] == ["--runs", str(RUN.parent)]


def test_an_edge_of_a_study_has_the_next_training_with_its_shape_and_price(
    conclusion: Conclusion,
) -> None:
    first = conclusion.optima[0]
    deepest = first.depths[-1].depth
    verdict = v.Verdict(v.Kind.EDGE, v.BestAtEnd(deepest, deeper=True), v.Depths(4, 32))
    found = replace(conclusion, optima=(replace(first, verdict=verdict),))

    [training] = study_answers(found, RUN)[0].next

    assert training.shape.depth == 2 * deepest
    assert training.shape.params_non_embedding == pytest.approx(first.budget, rel=0.05)
    assert training.tokens == first.tokens
    assert training.price.flops is not None
    assert training.price.flops > 0


def test_where_operations_are_given_a_training_has_the_tokens_that_they_pay_for(
    conclusion: Conclusion,
) -> None:
    first = conclusion.optima[0]
    deepest = first.depths[-1].depth
    verdict = v.Verdict(v.Kind.EDGE, v.BestAtEnd(deepest, deeper=True), v.Depths(4, 32))
    spent = replace(first, verdict=verdict, shared_spend=Spend(1e12, Coin.FLOPS))

    answer = study_answers(replace(conclusion, optima=(spent,)), RUN)[0]

    assert answer.question.horizon is not None
    assert (answer.question.horizon.amount, answer.question.horizon.unit) == (1e12, "FLOPs")
    [training] = answer.next
    assert training.price.flops == 1e12
    assert training.tokens != first.tokens


def test_where_no_shape_lies_beyond_an_edge_nothing_is_bought(conclusion: Conclusion) -> None:
    first = conclusion.optima[0]
    nothing = v.NoRemedy(v.Lack.NO_DEEPER, first.budget)
    verdict = v.Verdict(v.Kind.EDGE, v.BestAtEnd(8, deeper=True), nothing)
    found = replace(conclusion, optima=(replace(first, verdict=verdict),))

    answer = study_answers(found, RUN)[0]

    assert (answer.next, answer.command) == ((), None)
    assert answer.verdict.remedy is not None
    assert answer.verdict.remedy.values["why"] == "no_deeper"


def test_a_budget_without_a_trial_is_unfinished(conclusion: Conclusion) -> None:
    left = replace(conclusion, optima=conclusion.optima[:1], resume="fathom run again")

    first, second = study_answers(left, RUN)

    assert first.answer is not None
    assert (second.answer, second.verdict.kind) == (None, "unfinished")
    assert second.command == "fathom run again"
