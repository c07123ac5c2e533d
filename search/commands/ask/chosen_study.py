"""The study that answers a question: budgets that fit the time, written to a file to be edited."""

from collections.abc import Sequence
from pathlib import Path

import yaml
from rich.console import Console

from fathom.objectives.contract import Objective
from fathom.objectives.next_token import NextToken
from fathom.objectives.prepare import prepare
from fathom.search.cluster.worker_speed import cluster_machine, measure_on_worker
from fathom.search.commands.ask.measured_speed import SpeedBySize, measure_here
from fathom.search.commands.ask.question import Question
from fathom.search.commands.plan_tables import print_plan
from fathom.search.formatting import format_count, format_seconds
from fathom.search.run_folder import token_cache
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.safe_yaml import read_text
from fathom.search.study.hardware.machine import Machine, this_machine
from fathom.search.study.keys.config import StudyConfig, load
from fathom.search.study.keys.json_schema import modeline
from fathom.search.study.planning.affordable import MOST_EPOCHS, choose_budgets, smallest_budget
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.draft import write_study
from fathom.search.study.planning.plan import BudgetPlan, plan_budget, search_hours
from fathom.search.study.planning.shapes import feasible_shapes


def prepare_study(
    question: Question, file: Path, console: Console, runs: Path
) -> tuple[StudyConfig, Objective]:
    """Returns the study of a question and its data.

    The study is read from the file if that exists; else it is chosen to fit the time, and written.

    Raises:
        ConfigError: when the file holds another question, or no study fits the time.
    """
    if file.exists():
        config = _written(question, file)
        console.print(f"{file} holds this question already; its search continues")
        return config, prepare(config.objective, token_cache(runs))
    alone = question.study([question.params])
    objective = prepare(alone.objective, token_cache(runs))
    assert isinstance(objective, NextToken), objective
    cluster = cluster_machine(alone, question.gpu or None)
    machine = cluster or this_machine(alone, question.gpu or None)
    if machine.here:
        who = "a worker of the cluster" if cluster else "this machine"
        console.print(f"Measuring how fast {who} trains", style="dim")
    measure = measure_on_worker if cluster else measure_here
    speeds = SpeedBySize(lambda params: question.study([params]), objective, machine, measure)

    def plans(budgets: tuple[int, ...]) -> list[BudgetPlan]:
        config, vocab_size = question.study(budgets), objective.vocab_size
        return [
            plan_budget(
                config,
                budget,
                feasible_shapes(config, budget, vocab_size),
                speeds.machine(budget.params),
            )
            for budget in expand_budgets(config)
        ]

    budgets = choose_budgets(
        question.params,
        most_params(question, len(objective.train)),
        question.hours,
        lambda budgets: search_hours(plans(budgets), speeds.machine(budgets[-1])),
        smallest=smallest_budget(question.tokens_per_parameter),
    )
    config, chosen, machine = question.study(budgets), plans(budgets), speeds.machine(budgets[-1])
    print_plan(config, chosen, machine, console)
    write_study(file, _text(question, chosen, machine, len(objective.train)))
    console.print(f"Study       {file}", highlight=False)
    return config, objective


def most_params(question: Question, train_tokens: int) -> int:
    """The largest useful budget: at most the asked size, and at most `MOST_EPOCHS` epochs of the
    text."""
    by_text = MOST_EPOCHS * train_tokens / question.tokens_per_parameter
    return min(question.params, int(by_text))


def _written(question: Question, file: Path) -> StudyConfig:
    _, asked, *_ = [*read_text(file).splitlines(), "", ""]
    if asked != f"# {question.command}":
        raise ConfigError(
            f"{file} holds another question ({asked.lstrip('# ')}); name another file with --out, "
            "or remove it"
        )
    return load(file)


def _text(
    question: Question, plans: Sequence[BudgetPlan], machine: Machine, train_tokens: int
) -> str:
    """The text of the study file, with comments that explain the choice."""
    budgets = [plan.budget.params for plan in plans]
    answered = (
        "The size that is asked for, searched itself."
        if budgets == [question.params]
        else f"Smaller models at the same {question.tokens_per_parameter:.3g} tokens a parameter: "
        f"the depth at {format_count(question.params)} is read from their law."
    )
    hours = search_hours(plans, machine)
    how = f"measured at {format_count(budgets[-1])}" if machine.here else "an estimate"
    epochs = plans[-1].budget.tokens / train_tokens
    head = (
        f"{modeline()}\n"
        f"# {question.command}\n"
        f"# {answered}\n"
        f"# Planned: {format_seconds(3600 * hours)} of {question.hours:g} hours on "
        f"{machine.description} ({how}); "
        f"at most {epochs:.1f} epochs of the text.\n"
        "# Edit it as you like: `fathom ask` and `fathom run` read it again.\n"
    )
    return head + yaml.safe_dump(question.keys(budgets), sort_keys=False, default_flow_style=None)
