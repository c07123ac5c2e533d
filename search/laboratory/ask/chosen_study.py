"""Chooses the study that answers a question, with budgets that fit the time, and writes its
file."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import log10
from pathlib import Path

import torch
import yaml
from rich.console import Console

from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.next_token import NextToken
from fathom.objectives.prepare import prepare
from fathom.search.cluster.worker_speed import cluster_machine, measure_on_worker
from fathom.search.formatting import exact_count, format_count, format_seconds
from fathom.search.laboratory.ask.question import Question
from fathom.search.report.terminal.plan_tables import print_plan
from fathom.search.report.terminal.tables import print_text
from fathom.search.run_folder import token_cache
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import load
from fathom.search.study.file.text_file import read_text
from fathom.search.study.hardware.machine import Machine, device_name, this_machine
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.json_schema import modeline
from fathom.search.study.planning.advice import advised
from fathom.search.study.planning.affordable import (
    MOST_EPOCHS,
    TooFewHoursError,
    choose_budgets,
    fewer_tokens,
    smallest_budget,
)
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.draft import write_study
from fathom.search.study.planning.plan import BudgetPlan, plan_budget, search_hours
from fathom.search.study.planning.space.near_shapes import middle_shape
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.timing.device_speed import Rate, binned, keep_speeds
from fathom.search.training.calibrate import measured_rate

Measure = Callable[[StudyConfig, Budget, Shape, NextToken], Rate | None]
"""Function that measures the speed of a training; None if it could not."""


def measure_here(
    config: StudyConfig, budget: Budget, shape: Shape, objective: NextToken
) -> Rate | None:
    """Measures the speed of a training in this process, and keeps it for later plans."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rate = measured_rate(config, budget, shape, objective.to(device), device)
    torch.cuda.empty_cache()  # else what it took stays with this process, beside the trials
    keep_speeds(device_name(config.resources), binned([rate]))
    return rate


def measured_machines(
    question: Question, objective: NextToken, machine: Machine, measure: Measure = measure_here
) -> Callable[[int], Machine]:
    """Returns a function of a budget's parameters that returns the machine with its speed for such
    models, measured once for each half power of ten; or `machine` unchanged if its devices are
    elsewhere.

    A device's FLOPs per second vary a thousandfold over the sizes of a ladder, because a small
    model does not fill a GPU.
    """

    @cache
    def measured(params: int) -> Machine:
        """The machine with the speed measured for the shape of middle depth."""
        config = question.study([params])
        (budget,) = expand_budgets(config)
        shape = middle_shape(feasible_shapes(config, budget, objective.vocab_size))
        rate = measure(config, budget, shape, objective)
        speed = replace(machine.speed, measured=(rate,)) if rate else machine.speed
        return replace(machine, speed=speed, notes=())

    def of_size(params: int) -> Machine:
        half_power = round(2 * log10(params)) / 2
        return measured(round(10**half_power)) if machine.here else machine

    return of_size


def prepare_study(
    question: Question, file: Path, console: Console, runs: Path
) -> tuple[StudyConfig, Objective]:
    """Returns the study of a question and its data.

    The study is read from `file` if it exists; otherwise it is chosen to fit the time, and written.

    Raises:
        ConfigError: when the file can't be written, or holds another question, or no study fits
            the time.
    """
    if file.is_dir() or not file.parent.is_dir():
        raise ConfigError(f"`--out` must be a file in an existing folder, got {file}")
    if file.exists():
        config = _written(question, file)
        console.print(f"{file} holds this question already, and is used unchanged")
        return config, prepare(config.objective, token_cache(runs))
    alone = question.study([question.params])
    objective = prepare(alone.objective, token_cache(runs))
    assert isinstance(objective, NextToken), objective
    cluster = cluster_machine(alone.resources, alone.train, question.gpu or None)
    machine = cluster or this_machine(alone.resources, alone.train, question.gpu or None)
    if machine.here:
        who = "a worker of the cluster" if cluster else "this machine"
        console.print(f"Measuring how fast {who} trains", style="dim")
    measure = measure_on_worker if cluster else measure_here
    machine_of = measured_machines(question, objective, machine, measure)

    def plans(asked: Question, budgets: tuple[int, ...]) -> list[BudgetPlan]:
        config, vocab_size = asked.study(budgets), objective.vocab_size
        return [
            plan_budget(
                config,
                budget,
                feasible_shapes(config, budget, vocab_size),
                machine_of(budget.params),
            )
            for budget in expand_budgets(config)
        ]

    def choose(asked: Question) -> tuple[int, ...]:
        return choose_budgets(
            asked.params,
            most_params(asked, len(objective.train)),
            asked.hours,
            lambda budgets: search_hours(plans(asked, budgets), machine_of(budgets[-1])),
            smallest=smallest_budget(asked.tokens_per_parameter),
        )

    budgets = _chosen(question, choose)
    config, machine = question.study(budgets), machine_of(budgets[-1])
    chosen = plans(question, budgets)
    print_plan(advised(config, chosen, machine, question.gpu or None), console)
    choice = _choice(question, chosen, machine, len(objective.train))
    for line in choice:
        print_text(line, console)
    write_study(file, _text(question, budgets, choice))
    console.print(f"Study       {file}", highlight=False)
    return config, objective


def _chosen(question: Question, choose: Callable[[Question], tuple[int, ...]]) -> tuple[int, ...]:
    """The budgets of a question.

    Raises:
        ConfigError: if no budgets fit the hours; the message says which tokens would.
    """

    def fits(tokens: int) -> bool:
        with suppress(TooFewHoursError):
            return bool(choose(replace(question, tokens=tokens)))
        return False

    try:
        return choose(question)
    except TooFewHoursError as error:
        fewer = fewer_tokens(question.tokens, question.params, fits)
        remedy = "give it more time: fewer `--tokens` do not fit either"
        if fewer is not None:
            remedy = f"{question.hours:g} h allow `--tokens {exact_count(fewer)}`"
        raise ConfigError(f"{error}; {remedy}") from error


def most_params(question: Question, train_tokens: int) -> int:
    """The largest useful budget: at most the asked size, and at most `MOST_EPOCHS` epochs of the
    text, rounded down to three digits."""
    by_text = int(MOST_EPOCHS * train_tokens / question.tokens_per_parameter)
    unit = int(10 ** max(0, len(str(by_text)) - 3))
    return min(question.params, by_text // unit * unit)


def _written(question: Question, file: Path) -> StudyConfig:
    _, asked, *_ = [*read_text(file).splitlines(), "", ""]
    if asked != f"# {question.command}":
        raise ConfigError(
            f"{file} holds another question ({asked.lstrip('# ')}); name another file with --out, "
            "or remove it"
        )
    return load(file)


def _choice(
    question: Question, plans: Sequence[BudgetPlan], machine: Machine, tokens: int
) -> tuple[str, str]:
    """Returns a sentence on what the budgets answer, and one on their time and their epochs of the
    text, which has so many training `tokens`."""
    budgets = [plan.budget.params for plan in plans]
    answered = (
        "The size that is asked for, searched itself."
        if budgets == [question.params]
        else f"Smaller models at the same {question.tokens_per_parameter:.3g} tokens a parameter: "
        f"the depth at {format_count(question.params)} is read from their law."
    )
    hours = search_hours(plans, machine)
    how = f"measured at {format_count(budgets[-1])}" if machine.here else "an estimate"
    epochs = plans[-1].budget.tokens / tokens
    is_limit = budgets[-1] == most_params(question, tokens) < question.params
    more = ", which allows no larger model: more text would" if is_limit else ""
    planned = (
        f"Planned: {format_seconds(3600 * hours)} of {question.hours:g} hours on "
        f"{machine.description} ({how}); at most {epochs:.1f} epochs of the text{more}."
    )
    return answered, planned


def _text(question: Question, budgets: Sequence[int], choice: Sequence[str]) -> str:
    """The text of the study file, with comments that explain the choice."""
    comments = [question.command, *choice]
    comments.append("Edit it as you like: `fathom ask` and `fathom run` read it again.")
    head = "\n".join([modeline(), *(f"# {line}" for line in comments)])
    keys = yaml.safe_dump(question.keys(budgets), sort_keys=False, default_flow_style=None)
    return f"{head}\n{keys}"
