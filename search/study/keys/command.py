"""The training command of a study: an argument list with placeholders, started for each trial."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathom.objectives.errors import nearest
from fathom.objectives.user_code import UserCodeError, named
from fathom.search.study.file.errors import PlanError

PLACEHOLDERS = {
    "depth": "layers",
    "d_model": "width of the model",
    "d_ff": "width of the feed-forward branches",
    "heads": "attention heads",
    "learning_rate": "peak learning rate",
    "batch_size": "sequences of a step",
    "tokens": "training tokens to the end",
    "steps": "steps to the end",
    "seed": "seed of this trial",
    "folder": "a folder of this trial's own, for its checkpoints",
    "resume": "1 where that folder holds something, which an earlier start left, else 0",
}
"""Description of the value that replaces each placeholder."""
NEEDED = ("depth", "d_model", "folder")
"""Required placeholders: without them trials would be alike, or could not go on after a pause."""
OF_A_COMMAND = ("parser", "silence")
"""Keys of `train` that go only with a command."""
WITHOUT_EFFECT = (
    *("optimizer", "warmup", "weight_decay", "betas", "eps", "grad_clip", "patience"),
    "auto_sizing",
    *("diagnostics", "precision", "compile"),
)
"""Keys of `train` that have no effect with a command."""
NAME = re.compile(r"\{([A-Za-z_]+)\}")


def check_command(command: Sequence[str]) -> None:
    """Checks the characters and the placeholders of a command.

    Raises:
        ValueError: if a placeholder is unknown, or one is missing that every command needs; or if
            an argument has a character that no process can be given.
    """
    for argument in command:
        if bad := next(filter(_is_impossible, argument), None):
            raise ValueError(
                f"must have characters that a process can be given, got {bad!r} in {argument!r}; "
                "drop it"
            )
    used = {name for argument in command for name in NAME.findall(argument)}
    for name in sorted(used - set(PLACEHOLDERS)):
        remedy = nearest(name, [*PLACEHOLDERS], otherwise="correct it")
        raise ValueError(
            f"must have placeholders among {', '.join(PLACEHOLDERS)}, got {{{name}}}; {remedy}"
        )
    for name in NEEDED:
        if name not in used:
            raise ValueError(
                f"must have the placeholder {{{name}}} ({PLACEHOLDERS[name]}); add it to an "
                f"argument, such as --{name}={{{name}}}"
            )


def _is_impossible(character: str) -> bool:
    """True for NUL, which ends an argument, and for a surrogate, which is half a character."""
    try:
        return b"\0" in os.fsencode(character)
    except UnicodeEncodeError:
        return True


def filled(command: Sequence[str], values: Mapping[str, object]) -> list[str]:
    """The arguments with the value of each placeholder that `values` has.

    >>> filled(["train", "--layers={depth}", "{folder}"], {"depth": 4})
    ['train', '--layers=4', '{folder}']
    """

    def value(found: re.Match[str]) -> str:
        return str(values.get(found[1], found[0]))

    return [NAME.sub(value, argument) for argument in command]


def own_parser(place: str) -> Callable[[str], Any]:
    """The user's function at a place.

    Raises:
        PlanError: if there is none.
    """
    try:
        module, found = named(place, "parser")
    except UserCodeError as error:
        raise PlanError(str(error), key="train.parser") from error
    if not callable(found):
        raise PlanError(
            f"parser {place} must be a function that takes a line, but {module.__name__} has none "
            "by that name; correct it",
            key="train.parser",
        )
    parser: Callable[[str], Any] = found
    return parser


def check_program(command: Sequence[str]) -> None:
    """Raises `PlanError` if the program of a command is not found."""
    if shutil.which(command[0]) is None:
        raise PlanError(
            f"`train.command` must begin with a program that can be started here, got "
            f"{command[0]!r}; write its path, or put its folder on the PATH",
            key="train.command",
        )
