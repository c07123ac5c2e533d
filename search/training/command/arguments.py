"""The arguments of the study's command for a trial. Imports no framework."""

from pathlib import Path

from fathom.models.shape import Shape
from fathom.search.study.keys.command import filled
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.training.assignment import Assignment, best_assignment

TRAINED = Path("trained")
"""Folder for checkpoints in the command that trains a best shape."""


def arguments_of(assignment: Assignment, folder: Path, *, resume: bool) -> list[str]:
    """The study's command for a trial, with each placeholder replaced by the trial's value."""
    spec, budget, command = assignment.spec, assignment.budget, assignment.config.train.command
    assert command is not None, "only a study with a command asks"
    values = {
        "depth": spec.shape.depth,
        "d_model": spec.shape.d_model,
        "d_ff": spec.shape.d_ff,
        "heads": spec.shape.n_heads,
        "learning_rate": f"{spec.learning_rate:g}",
        "batch_size": budget.batch_size,
        "tokens": budget.tokens,
        "steps": budget.steps,
        "seed": assignment.seed,
        "folder": folder,
        "resume": int(resume),
    }
    return filled(command, values)


def best_arguments(config: StudyConfig, budget: int, shape: Shape) -> list[str]:
    """The study's command for a budget's best shape, as `fathom train` first starts it."""
    (expanded,) = (known for known in expand_budgets(config) if known.params == budget)
    assignment = best_assignment(config, expanded, shape, checkpoint="")
    return arguments_of(assignment, TRAINED, resume=False)
