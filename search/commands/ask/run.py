"""Steps of `fathom ask`: choose a study, run it, answer."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console

from fathom.objectives.contract import Objective
from fathom.objectives.prepare import prepare
from fathom.objectives.text.language.objective import Language
from fathom.search.commands.ask.answer import Answer, answer, answer_yaml, lines
from fathom.search.commands.ask.pace import TrainingPace
from fathom.search.commands.ask.question import Question
from fathom.search.commands.plan_tables import print_plan
from fathom.search.conclusion import why_no_law
from fathom.search.formatting import format_count, format_seconds
from fathom.search.pipeline import RunResult, run_study
from fathom.search.report.terminal.answer_tables import print_answers
from fathom.search.run_folder import RunFolder, write_atomically
from fathom.search.study.affordable import MOST_EPOCHS, choose_budgets, smallest_budget
from fathom.search.study.budget import expand_budgets
from fathom.search.study.config import StudyConfig, load
from fathom.search.study.draft import write_study
from fathom.search.study.errors import ConfigError
from fathom.search.study.json_schema import modeline
from fathom.search.study.plan import BudgetPlan, Machine, plan_budget, this_machine
from fathom.search.study.preflight import check_ready
from fathom.search.study.safe_yaml import read_text
from fathom.search.study.shapes import feasible_shapes


@dataclass(frozen=True, slots=True)
class Prepared:
    """The study of a question, written to its file, with its data."""

    config: StudyConfig
    objective: Objective
    file: Path


def prepare_study(question: Question, file: Path, console: Console) -> Prepared:
    """The study of a question: read from the file if it exists, else chosen and written.

    Raises:
        ConfigError: when the file holds another question, or no study fits the time.
    """
    if file.exists():
        config = _written(question, file)
        console.print(f"{file} asks this already, and goes on")
        return Prepared(config, prepare(config.objective), file)
    alone = question.study([question.params])
    objective = prepare(alone.objective)
    assert isinstance(objective, Language), objective
    console.print("Measuring how fast this machine trains", style="dim")
    pace = TrainingPace(lambda params: question.study([params]), objective, this_machine(alone))

    def plans(budgets: tuple[int, ...]) -> tuple[BudgetPlan, ...]:
        return _plans(question.study(budgets), objective, pace)

    budgets = choose_budgets(
        _most(question, objective),
        question.hours,
        lambda budgets: sum(plan.hours for plan in plans(budgets)),
        smallest=smallest_budget(question.tokens_per_parameter),
    )
    config, chosen = question.study(budgets), plans(budgets)
    machine = pace.machine(budgets[-1])
    print_plan(config, chosen, machine, console)
    write_study(file, _text(question, chosen, machine, len(objective.train)))
    console.print(f"Study       {file}", highlight=False)
    return Prepared(config, objective, file)


def carry_out(prepared: Prepared, runs: Path, console: Console) -> RunResult:
    """Runs the study or resumes it."""
    return run_study(check_ready(prepared.config, runs), console, objective=prepared.objective)


def conclude(question: Question, prepared: Prepared, result: RunResult) -> Answer | None:
    """The answer, also written to answer.yaml in the run folder; None if there is none."""
    found = answer(
        question,
        prepared.config,
        result.conclusion.optima,
        result.conclusion.laws,
        prepared.objective.vocab_size,
    )
    if found:
        write_atomically(answer_file(result.folder), answer_yaml(found))
    return found


def answer_file(folder: RunFolder) -> Path:
    """The file answer.yaml of a run: the shape of the asked size, in the form of best.yaml."""
    return folder.path / "answer.yaml"


def _written(question: Question, file: Path) -> StudyConfig:
    _, asked, *_ = [*read_text(file).splitlines(), "", ""]
    if asked != f"# {question.command}":
        raise ConfigError(
            f"{file} holds another question ({asked.lstrip('# ')}); name another file with --out, "
            "or remove it"
        )
    return load(file)


def _most(question: Question, objective: Language) -> int:
    """The largest useful budget: at most the asked size, and at most `MOST_EPOCHS` epochs of the
    text."""
    by_text = MOST_EPOCHS * len(objective.train) / question.tokens_per_parameter
    return min(question.params, int(by_text))


def _plans(config: StudyConfig, objective: Objective, pace: TrainingPace) -> tuple[BudgetPlan, ...]:
    vocab_size = objective.vocab_size
    return tuple(
        plan_budget(
            config, budget, feasible_shapes(config, budget, vocab_size), pace.machine(budget.params)
        )
        for budget in expand_budgets(config)
    )


def _text(
    question: Question, plans: tuple[BudgetPlan, ...], machine: Machine, train_tokens: int
) -> str:
    """The text of the study file, with comments that explain the choice."""
    budgets = [plan.budget.params for plan in plans]
    hours = sum(plan.hours for plan in plans)
    epochs = plans[-1].budget.tokens / train_tokens
    head = (
        f"{modeline()}\n"
        f"# {question.command}\n"
        f"# Smaller models at the same {question.tokens_per_parameter:.3g} tokens a parameter: the "
        f"depth at {format_count(question.params)} is read from their law.\n"
        f"# Planned: {format_seconds(3600 * hours)} of {question.hours:g} hours on {machine.words}"
        f" (measured at {format_count(budgets[-1])}); at most {epochs:.1f} epochs of the text.\n"
        "# Edit it as you like: `fathom ask` and `fathom run` go on with what stands here.\n"
    )
    return head + yaml.safe_dump(question.keys(budgets), sort_keys=False, default_flow_style=None)


def print_answer(
    found: Answer | None, prepared: Prepared, result: RunResult, console: Console
) -> None:
    """Prints the answer of each budget, then the answer to the question or why there is none."""
    optima = result.conclusion.optima
    print_answers(result.conclusion, console)
    console.print(f"\nReport      {result.folder.report}", highlight=False)
    if found is None:
        console.print(
            f"No answer, for there is no law: {why_no_law(optima)}. The lines above "
            f"say what each budget needs; edit {prepared.file}, with another `study` name, and "
            "ask again.",
            highlight=False,
        )
        return
    for line in lines(found):
        console.print(line, highlight=False)
    file = answer_file(result.folder)
    console.print(f"Next        fathom train {file}", highlight=False)
    console.print(f"            fathom export {file} --format hf", highlight=False)
