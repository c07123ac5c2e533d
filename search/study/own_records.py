"""The records of a run folder, each checked to be of the folder's study."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from fathom.models.shape import Shape
from fathom.objectives.keys import NextTokenConfig, ObjectiveConfig
from fathom.objectives.user_objective import UserObjectiveConfig
from fathom.search.records import HOPELESS_NATS, TrialRecord, TrialSpec
from fathom.search.run_folder import RunFolder, last_attempts, read_attempts
from fathom.search.study.fingerprint import read_fingerprint
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.timing.sized_times import times_by_budget
from fathom.search.study.timing.step_times import frozen_steps

Check = Callable[[TrialRecord], TrialRecord]
"""Function that returns a record as it is, and raises `ValueError` for one that the study can't
have."""


def read_records(folder: RunFolder, config: StudyConfig) -> list[TrialRecord]:
    """The trials of a run that have ended, in the order in which they ended.

    A trial that was stopped and resumed has a line for each attempt; its last line counts.

    Raises:
        DamagedFileError: at a line that is not of this study.
    """
    return last_attempts(read_attempts(folder.records, check_of(folder, config)))


def check_of(folder: RunFolder, config: StudyConfig) -> Check:
    """The check of `record_check` for the study and the fingerprint of a run folder."""
    fingerprint, steps = read_fingerprint(folder), frozen_steps(folder, config)
    budgets = expand_budgets(config, times_by_budget(steps, config))
    return record_check(config, budgets, fingerprint.study if fingerprint else None)


def record_check(config: StudyConfig, budgets: Iterable[Budget], fingerprint: str | None) -> Check:
    """Returns a function that refuses records of another study or of other budgets.

    If `fingerprint` is None, all records must have the fingerprint of the first.
    """
    by_size = {budget.params: budget for budget in budgets}
    known, fitting = fingerprint, set[tuple[int, Shape]]()

    def check(record: TrialRecord) -> TrialRecord:
        nonlocal known
        known = record.spec.fingerprint if known is None else known
        spec = record.spec
        facts: Iterable[tuple[str, object, object]] = _facts(record, config, by_size, known)
        if (spec.budget, spec.shape) not in fitting:
            facts = chain(facts, _shape_facts(spec, config, by_size))
        for name, value, expected in facts:
            if value != expected:
                raise ValueError(
                    f"it is of another study, with {name} {value!s:.80} instead of {expected}"
                )
        fitting.add((spec.budget, spec.shape))
        _check_training(record, config, by_size[spec.budget].of_shape(spec.shape))
        return record

    return check


def _check_cross_entropies(record: TrialRecord, objective: ObjectiveConfig) -> None:
    """Refuses losses that no cross entropy can have: below zero, or zero on text, whose next token
    no model is certain of."""
    is_text = isinstance(objective, NextTokenConfig)
    for loss in (*(point.loss for point in record.curve), *record.rungs.values()):
        if loss < 0 or (is_text and loss == 0):
            raise ValueError(f"a cross entropy can't be {loss:g}")


def _facts(
    record: TrialRecord, config: StudyConfig, budgets: dict[int, Budget], fingerprint: str
) -> Iterator[tuple[str, object, object]]:
    """Yields, for each fact of a record but those of its shape, its name, its value in the record,
    and its value by the study."""
    spec = record.spec
    yield "study", spec.study, config.study
    yield "count", spec.count.value, config.count.value
    yield "budget", spec.budget, spec.budget if spec.budget in budgets else list(budgets)
    budget = budgets[spec.budget]
    for name, value in budget.length_of(spec.shape).items():
        yield name, getattr(spec, name), value
    rate = config.train.learning_rate * spec.rate_scale
    yield "learning_rate", spec.learning_rate, rate
    yield "fingerprint", spec.fingerprint or "none", fingerprint or "none"


def _shape_facts(
    spec: TrialSpec, config: StudyConfig, budgets: dict[int, Budget]
) -> Iterator[tuple[str, object, object]]:
    """Yields the same for each fact of a record's shape."""
    shape, budget = spec.shape, budgets[spec.budget]
    yield "context", shape.context, config.objective.context
    options = config.model.options
    yield from ((name, getattr(shape, name), option) for name, option in options.items())
    yield "own counts", shape.own_counts is not None, config.model.build is not None
    encoder_depth = config.space.encoder_depth(shape.depth)
    yield "encoder layers", shape.encoder_depth, encoder_depth
    if abs(budget.count_error(shape)) > budget.tolerance or shape.depth not in config.space.depths:
        yield "a shape", f"of depth {shape.depth}, size {shape.size(spec.count)}", budget.label


def _check_training(record: TrialRecord, config: StudyConfig, budget: Budget) -> None:
    """Refuses a curve that no training of this budget can have."""
    if not (config.train.command or isinstance(config.objective, UserObjectiveConfig)):
        _check_cross_entropies(record, config.objective)
    for point in record.curve:
        if point.tokens != point.step * budget.tokens_per_step or point.step > budget.steps:
            raise ValueError(
                f"`curve` can't have {point.tokens} tokens at step {point.step} of {budget.steps}"
            )
    if record.loss is None:
        return
    if record.tokens != budget.tokens and not config.train.patience:
        raise ValueError(f"a finished trial can't have ended at {record.tokens} tokens")
    if isinstance(config.objective, UserObjectiveConfig):
        return  # what a guess loses at a user's own task is not known here
    guess = math.log(record.spec.shape.vocab_size)
    if record.loss > guess + HOPELESS_NATS:
        raise ValueError(
            f"a finished trial can't have the loss {record.loss:g}, far above {guess:.3f}, that of "
            "a guess"
        )
