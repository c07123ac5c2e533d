"""Steps of `fathom ask`: choose a study, run it, answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from fathom.objectives.contract import Objective
from fathom.objectives.next_token import NextToken
from fathom.objectives.prepare import prepare
from fathom.search.cluster.pace import cluster_machine, measure_on_worker
from fathom.search.commands.ask.answer import answer, answer_json, answer_yaml, lines
from fathom.search.commands.ask.pace import TrainingPace, measure_here
from fathom.search.commands.ask.question import Question
from fathom.search.commands.ask.searched import searched, searched_json, searched_lines
from fathom.search.commands.plan_tables import print_plan
from fathom.search.conclusion import Conclusion, why_no_law
from fathom.search.formatting import exact_count, format_count, format_seconds
from fathom.search.pipeline import RunResult
from fathom.search.report.terminal.answer_tables import print_answers, print_next
from fathom.search.run_folder import token_cache, write_atomically
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
    """The study of a question and its data: read from the file if it exists, else chosen and
    written.

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
    pace = TrainingPace(lambda params: question.study([params]), objective, machine, measure)

    def plans(budgets: tuple[int, ...]) -> list[BudgetPlan]:
        config, vocab_size = question.study(budgets), objective.vocab_size
        return [
            plan_budget(config, own, feasible_shapes(config, own, vocab_size), pace.machine(params))
            for params, own in zip(budgets, expand_budgets(config), strict=True)
        ]

    budgets = choose_budgets(
        question.params,
        most_params(question, len(objective.train)),
        question.hours,
        lambda budgets: search_hours(plans(budgets), pace.machine(budgets[-1])),
        smallest=smallest_budget(question.tokens_per_parameter),
    )
    config, chosen, machine = question.study(budgets), plans(budgets), pace.machine(budgets[-1])
    print_plan(config, chosen, machine, console)
    write_study(file, _text(question, chosen, machine, len(objective.train)))
    console.print(f"Study       {file}", highlight=False)
    return config, objective


def most_params(question: Question, train_tokens: int) -> int:
    """The largest useful budget: at most the asked size, and at most `MOST_EPOCHS` epochs of the
    text."""
    by_text = MOST_EPOCHS * train_tokens / question.tokens_per_parameter
    return min(question.params, int(by_text))


def print_answer(
    question: Question, study: Path, vocab_size: int, result: RunResult, console: Console
) -> dict[str, Any] | None:
    """Prints the answer of each budget, then the answer to the question or why there is none.

    Returns the answer as JSON; None if there is none. A shape by a law is also written to
    answer.yaml in the run folder, in the form of best.yaml.
    """
    conclusion, file = result.conclusion, result.folder.path / "answer.yaml"
    print_answers(conclusion, console)
    console.print(f"\nReport      {result.folder.report}", highlight=False)
    found: dict[str, Any] | None = None
    source = ""
    if own := searched(question, conclusion):
        found, text = searched_json(question, own), searched_lines(own)
        source = f"{result.folder.path} --budget {exact_count(own.budget)}"
    elif by_law := answer(question, conclusion, vocab_size):
        write_atomically(file, answer_yaml(by_law))
        found, text, source = answer_json(by_law), lines(by_law), str(file)
    else:
        text = [_no_answer(question, conclusion, study)]
    for line in text:
        console.print(line, highlight=False)
    if source:
        print_next([f"fathom train {source}", f"fathom export {source} --format hf"], console)
    return found


def _no_answer(question: Question, conclusion: Conclusion, study: Path) -> str:
    """Why there is no answer, and what to do."""
    if question.params in conclusion.config.budgets:
        why = f"the search of {format_count(question.params)} leaves its best depth open"
    else:
        why = f"there is no law: {why_no_law(conclusion.optima)}"
    return (
        f"No answer, because {why}. The lines above say what each budget needs; edit {study}, with "
        "another `study` name, and ask again."
    )


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
