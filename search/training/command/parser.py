"""A user's own function that reads the lines of a command, in place of JSON."""

from collections.abc import Mapping
from typing import Any

from fathom.objectives.keys import short
from fathom.objectives.user_code import one_line
from fathom.search.study.keys.command import own_parser
from fathom.search.training.command.lines import LineError, Parser, json_values


def load_parser(place: str | None) -> Parser:
    """The function at a place, whose errors become `LineError`; that of JSON where none is named.

    Raises:
        PlanError: if there is no such function.
    """
    if place is None:
        return json_values
    found = own_parser(place)

    def parse(text: str) -> Mapping[str, Any] | None:
        try:
            values = found(text)
        except Exception as error:
            reason = f"{place} failed at the line {short(text)}: {one_line(error)}"
            raise LineError(reason) from error
        if values is not None and not isinstance(values, Mapping):
            raise LineError(
                f"{place} must return a mapping or None, got {short(values)} for {short(text)}"
            )
        return values

    return parse
