"""The answer of `fathom ask`: depth and shape of the asked size, by a search of it or by a law."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean

from rich.console import Console

from fathom.models.shape import Shape
from fathom.models.spend import Spend
from fathom.search.analysis.answer.definitions import not_ruled_out
from fathom.search.analysis.answer.optimum import Located
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.laws.law import DepthLaw, Prediction, predictions
from fathom.search.analysis.laws.null_laws import NullLaw, as_good
from fathom.search.analysis.laws.weighed_laws import WeighedLaws
from fathom.search.conclusion.conclude import Conclusion
from fathom.search.conclusion.findings import why_no_law
from fathom.search.conclusion.named_law import PUBLISHED
from fathom.search.contract import reply as forms
from fathom.search.contract.questions import asked_horizon, study_question
from fathom.search.contract.reply import BestDepth, ByLaw, Statement
from fathom.search.contract.studies import study_answers
from fathom.search.export.best import entries_yaml, shape_entry
from fathom.search.formatting import exact_count, format_count, rounded_count, shell_command
from fathom.search.laboratory.ask.question import Question
from fathom.search.report.terminal.answer_tables import print_answers, print_next
from fathom.search.report.words.text import (
    depths_not_ruled_out,
    null_law_text,
    sentence,
    shape_text,
    untrained_text,
    weighed_laws_text,
)
from fathom.search.run_folder import write_atomically
from fathom.search.study.file.study_file import changed
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.near_shapes import nearest_shape
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.tracking.writing.publishing import RunResult
from fathom.search.words import both_ends, study_reason

AS_GOOD = "A null law that predicts the budgets equally well"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The best depth and shape of a model of the asked size, by laws through smaller models."""

    question: Question
    laws: WeighedLaws
    prediction: Prediction
    null_laws: tuple[NullLaw, ...]
    """Baseline laws that predict left-out budgets as well as the best law."""
    shape: Shape
    """Shape of the asked size, nearest to the predicted depth and to the mean feed-forward ratio of
    the budgets' best shapes."""
    study: StudyConfig
    """Study of the asked size alone, with the settings to train the shape."""

    @property
    def beyond(self) -> float:
        """Ratio of the asked size to the largest budget, or of the smallest budget to the asked
        size."""
        low, high = self.laws.params_range
        return max(self.question.params / high, low / self.question.params)


def answer(question: Question, conclusion: Conclusion, vocab_size: int) -> Answer | None:
    """Returns the answer by the laws; None if there are no laws, or they predict less than one
    layer at the asked size."""
    laws = conclusion.weighed_laws
    if laws is None:
        return None
    prediction = next(predictions(laws, [question.params]), None)
    if prediction is None:
        return None
    study = _study(question, conclusion.config, prediction)
    (budget,) = expand_budgets(study)
    ratios = [log(optimum.shape.ff_ratio) for optimum in conclusion.optima if optimum.shape]
    shapes = feasible_shapes(study, budget, vocab_size)
    return Answer(
        question=question,
        laws=laws,
        prediction=prediction,
        null_laws=as_good(laws.laws[0], conclusion.null_laws),
        shape=nearest_shape(shapes, depth=prediction.depth, ff_ratio=exp(fmean(ratios))),
        study=study,
    )


def lines(found: Answer) -> list[str]:
    """The answer by a law as lines of text."""
    question, laws, prediction = found.question, found.laws, found.prediction
    size = f"{format_count(question.params)} {question.count.unit_in_full}"
    assert prediction.interval is not None, "a fitted law has errors"
    low, high = prediction.interval
    smallest, largest = map(format_count, laws.params_range)
    shape = found.shape
    return [
        f"Depth {prediction.depth:.0f} for {size} after {rounded_count(question.tokens)} tokens, "
        f"95 % interval {low:.0f} to {high:.0f}, by {weighed_laws_text(laws.weights)}, through "
        f"{laws.laws[0].budgets} budgets of {smallest} to {largest}.",
        _distance(found),
        *(f"{whose} would say {depth:.0f}." for whose, depth in _others(found)),
        f"Shape: depth {shape.depth}, d_model {shape.d_model}, d_ff {shape.d_ff}, "
        f"{shape.n_heads} heads of {shape.head_dim}: {shape.size(question.count):,} parameters.",
    ]


def law_finding(found: Answer) -> BestDepth:
    """The answer by a law, for `--json`."""
    prediction = found.prediction
    return BestDepth(
        depth=prediction.depth,
        interval=prediction.interval,
        shape=forms.Sizes.model_validate(found.shape),
        by_law=ByLaw(
            law=prediction.law,
            extrapolated=prediction.extrapolated,
            times_beyond=found.beyond,
            params_range=found.laws.params_range,
            weights=found.laws.weights,
        ),
    )


def asked_answer(
    question: Question, result: RunResult, kind: Kind, *, why: str,
    finding: BestDepth | None, command: str | None,
) -> forms.StatedAnswer:  # fmt: skip
    """The answer, for `--json`, to a question whose size was not searched: by a law, or none."""
    said = Statement(name="Law" if finding else "NoLaw", text=why, values={})
    horizon = asked_horizon(Spend(question.tokens))
    of_budgets = study_question(
        question.params, result.conclusion.config, result.folder.path, horizon
    )
    return forms.StatedAnswer(
        question=of_budgets,
        answer=finding,
        verdict=forms.StatedVerdict(kind=kind, reason=why, cause=said),
        command=command,
    )  # fmt: skip


def answer_yaml(found: Answer) -> str:
    """The answer by a law as YAML in the form of best.yaml, for `fathom train` and `fathom
    export`."""
    prediction = found.prediction
    entry = {
        "budget": found.question.params,
        "count": found.question.count.value,
        "tokens": found.question.tokens,
        "optimal_depth": round(prediction.depth, 2),
        "interval": [round(end, 2) for end in prediction.interval or ()],
        "reason": " ".join(lines(found)[:2]),
        **shape_entry(found.shape),
    }
    return entries_yaml(found.study, [entry])


def print_answer(
    question: Question, study: Path, vocab_size: int, result: RunResult, console: Console
) -> forms.StatedAnswer:
    """Prints the answer of each budget, then the answer to the question, or why there is none.

    Returns the answer for `--json`: if the asked size was searched, that of the search, even if the
    depth is open. A shape by a law is also written to answer.yaml in the run folder, in the form of
    best.yaml.
    """
    conclusion, file = result.conclusion, result.folder.path / "answer.yaml"
    print_answers(conclusion, console)
    console.print(f"\nReport      {result.folder.report}", highlight=False)
    source: tuple[object, ...] = ()
    answers = study_answers(conclusion, result.folder.path)
    of_size = next((each for each in answers if each.question.budget == question.params), None)
    if of_size and (optimum := conclusion.settled(question.params)):
        found, text = of_size, searched_lines(optimum)
        source = (result.folder.path, "--params", exact_count(optimum.budget))
    elif by_law := answer(question, conclusion, vocab_size):
        write_atomically(file, answer_yaml(by_law))
        text, source = lines(by_law), (file,)
        found = asked_answer(
            question, result, Kind.BY_LAW, why=" ".join(text[:2]),
            finding=law_finding(by_law), command=shell_command("fathom", "train", file),
        )  # fmt: skip
    else:
        text = [_no_answer(question, conclusion, study)]
        found = of_size or asked_answer(
            question, result, Kind.NO_ANSWER, why=text[0], finding=None, command=None
        )
    for line in text:
        console.print(line, highlight=False)
    if source:
        train = shell_command("fathom", "train", *source)
        print_next([train, shell_command("fathom", "export", *source, "--format", "hf")], console)
    return found


def _no_answer(question: Question, conclusion: Conclusion, study: Path) -> str:
    """The sentence that says why there is no answer, and what to do."""
    if question.params in conclusion.config.budgets:
        why = f"the search of {format_count(question.params)} leaves its best depth open"
    else:
        why = f"there is no law: {why_no_law(conclusion.optima)}"
    return (
        f"No answer, because {why}. The lines above say what each budget needs; edit {study}, "
        "give it another `study` name, and ask again."
    )


def searched_lines(found: Located) -> list[str]:
    """The answer by a search as lines of text."""
    assert found.shape, "a settled optimum has one"
    size = f"{format_count(found.budget)} {found.count.unit_in_full}"
    return [
        f"Depth {found.optimal_depth} for {size} after {rounded_count(found.tokens)} tokens, "
        f"95 % interval {both_ends(found.interval)}, by a search of this size: nothing is "
        "extrapolated.",
        f"Depths {depths_not_ruled_out(found)} are not ruled out."
        if len(not_ruled_out(found)) > 1
        else f"{sentence(study_reason(found.verdict))}",
        *([sentence(untrained)] if (untrained := untrained_text(found)) else []),
        f"Shape: {shape_text(found.shape)}: {found.shape.size(found.count):,} parameters.",
    ]


def _study(question: Question, config: StudyConfig, prediction: Prediction) -> StudyConfig:
    """The study of the asked size alone, with depths around the prediction."""
    middle = max(2, round(prediction.depth))
    depths = (middle - 1, middle + 1)
    return changed(
        config,
        {
            "study": f"{config.study}-answer",
            "budgets": (question.params,),
            "tokens": question.tokens,
            "tokens_per_parameter": None,
            "space.depth": depths,
        },
    )


def _others(found: Answer) -> Iterator[tuple[str, float]]:
    """Yields the name and the depth of each single law that has a depth at the asked size."""
    params, laws = found.question.params, found.laws.laws
    named: list[tuple[str, DepthLaw]] = [
        *((f"The {law.name} law alone", law) for law in laws if len(laws) > 1),
        *((f"{AS_GOOD} ({null_law_text(law)})", law) for law in found.null_laws),
        ("Levine et al. 2020", PUBLISHED["levine2020"].law),
    ]
    for whose, law in named:
        for said in predictions(law, [params]):
            yield whose, said.depth


def _distance(found: Answer) -> str:
    low, high = found.laws.params_range
    if not found.prediction.extrapolated:
        return "The size lies within these budgets: nothing is extrapolated."
    is_larger = found.question.params > high
    side = "larger than the largest" if is_larger else "smaller than the smallest"
    return (
        f"Extrapolated: the size is {found.beyond:.3g} times {side} budget, and the budgets "
        f"span {high / low:.3g} times; the interval is right only if the law is."
    )
