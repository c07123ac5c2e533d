"""Reads losses and parameters from the lines of a command: as JSON, or by a function of the
user's."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fathom.objectives.keys import short
from fathom.objectives.user_code import UserCodeError, user_code
from fathom.search.record_json import LARGEST, LARGEST_REAL
from fathom.search.study.keys.command import own_parser

Parser = Callable[[str], Mapping[str, Any] | None]
"""Function that returns the values in a line by name; None for a line without values."""
OWN = ("tokens", "step", "parameters", "loss", "train_loss")
"""Names of values with a fixed meaning; every other number of a line is a metric."""


class LineError(ValueError):
    """A line has values that can't be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluation in the training of a command."""

    tokens: int
    loss: float
    """Held-out loss in nats per token."""
    train_loss: float = math.nan
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The evaluation in a line and the number of parameters in it; None for one that the line
    lacks."""

    evaluation: Evaluation | None = None
    parameters: int | None = None
    """Number of parameters of the model, by the counting rule of the study's budgets."""


def json_values(text: str) -> Mapping[str, Any] | None:
    """Returns the object in a line of JSON; None if the line is something else, as most are."""
    if not text.startswith("{"):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def load_parser(place: str | None) -> Parser:
    """The parser that an import path names, with its errors as `LineError`; the JSON parser if
    `place` is None.

    Raises:
        PlanError: if there is no such function.
    """
    if place is None:
        return json_values
    found = own_parser(place)

    def parse(text: str) -> Mapping[str, Any] | None:
        try:
            with user_code(f"{place} must read the line {short(text)}"):
                values = found(text)
        except UserCodeError as error:
            raise LineError(str(error)) from error
        if values is not None and not isinstance(values, Mapping):
            raise LineError(
                f"{place} must return a mapping or None, got {short(values)} for {short(text)}"
            )
        return values

    return parse


def read_line(text: str, parser: Parser, *, tokens_per_step: int) -> CommandLine:
    """Returns the evaluation and the number of parameters in a line; None for one that the line
    lacks.

    Raises:
        LineError: if a value can't be right, or a loss comes without its tokens.
    """
    values = parser(text)
    if not isinstance(values, Mapping):
        return CommandLine()
    parameters = _whole(values, "parameters")
    if "loss" not in values:
        return CommandLine(None, parameters)
    tokens, step = _whole(values, "tokens"), _whole(values, "step")
    if tokens is None and step is None:
        raise LineError(f"a loss must come with `tokens` or `step`, got {short(text)}")
    evaluation = Evaluation(
        tokens=(step or 0) * tokens_per_step if tokens is None else tokens,
        loss=_real(values, "loss"),
        train_loss=_real(values, "train_loss") if "train_loss" in values else math.nan,
        metrics={
            str(name): float(value)
            for name, value in values.items()
            if name not in OWN and _is_number(value) and abs(value) < LARGEST_REAL
        },
    )
    return CommandLine(evaluation, parameters)


def _whole(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is not None and not (_is_number(value) and 0 <= value < LARGEST and value % 1 == 0):
        raise LineError(f"`{name}` must be a whole number, got {short(value)}")
    return None if value is None else int(value)


def _real(values: Mapping[str, Any], name: str) -> float:
    value = values[name]
    if not _is_number(value):
        raise LineError(f"`{name}` must be a number, got {short(value)}")
    return math.inf if abs(value) >= LARGEST_REAL else float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
