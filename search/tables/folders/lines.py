"""Reads a line of a log: numbers with their names, or the groups of a user's own pattern."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fathom.search.formatting import printable
from fathom.search.tables.columns.columns import PERPLEXITY, SCALED, meaning, plain_name
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import flat_names

Pairs = Sequence[tuple[str, object]]
"""Pairs of name and value, in the order of the line."""
ReadLine = Callable[[str], Pairs]

LONGEST_TEXT = 2000
"""Characters of a line that are read; a line in JSON is read whole."""
PAIR = re.compile(
    r"(?<![\w./-])(?P<name>[a-z_][\w./-]*+(?:[ ](?!(?:nan|inf|infinity)\b)[a-z_][\w./-]*+){0,3}+)"
    r"['\"]?[ \t]*+[:=]?[ \t]*+[\[(]?"
    r"(?P<value>[-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]*+)?+|\.[0-9]++)"
    r"(?:e[-+]?[0-9]++)?+|[-+]?(?:nan|inf|infinity)\b)"
    r"(?P<unit>[kmbt](?!\w))?+(?![\w%]|[ ]%)",
    re.IGNORECASE,
)
"""Up to four words and a number: `step 100`, `loss=3.21`, `train loss: 4.0`, `params: 10.65M`.
Repetitions are possessive, so that no text takes long."""
LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL"})
SPLITS = {
    **dict.fromkeys(("val", "valid", "validation", "eval", "evaluation", "evaluate", "dev"), "val"),
    **dict.fromkeys(("train", "training"), "train"),
    "test": "test",
}
"""Word for the data on which a loss was measured -> first part of the loss's name, as in
`val_loss`."""
SPLIT = re.compile(rf"(?<![\w./-])({'|'.join(SPLITS)})(?![\w./])", re.IGNORECASE)
BARE = ("loss", "lm_loss", "lm_loss_value")
"""Names of losses that do not name the data; the last two are Megatron's."""
SPLIT_KEYS = ("split", "phase", "mode", "stage", "subset")
"""Keys of a line in JSON whose value may be one of `SPLITS`."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
EXAMPLE = r"--line 'step (?P<step>\d+).* loss (?P<loss>\S+)'"


def common_pairs(line: str) -> Pairs:
    """The numbers of a line with their names, in the forms that many programs write; a `loss`
    becomes `val_loss` if another word of the line says that it is on validation data.

    >>> common_pairs("step 250: train loss 4.0, val loss 4.1")
    [('step', 250.0), ('train_loss', 4.0), ('val_loss', 4.1)]
    """
    if line.startswith("{") and (row := _object(line)) is not None:
        return list(_pairs_of(row))
    text = _looked_at(line)
    found = PAIR.findall(text)
    if not found:
        return []
    pairs: Pairs = [
        (_column(name), value + unit if unit else float(value.replace(",", "")))
        for name, value, unit in found
        if not unit or meaning(_column(name)) in SCALED
    ]
    name, column = found[0][0], _column(found[0][0])
    apart = name[: -len(column)] if name.lower().endswith(column) else ""
    split = SPLIT.search(text[: text.index(name)] + apart)
    return [(_of_split(name, split), value) for name, value in pairs] if split else pairs


def pattern_pairs(patterns: Sequence[str]) -> ReadLine:
    """Returns a function that reads the named groups of a person's patterns from a line.

    Raises:
        TableError: when one is no regular expression, or has no named group.
    """
    compiled = [_compiled(pattern) for pattern in patterns]

    def pairs(line: str) -> Pairs:
        text = _looked_at(line)
        matches = [match for pattern in compiled if (match := pattern.search(text))]
        return [
            (name, sys.intern(value.strip(" \t,;:|")))
            for match in matches
            for name, value in match.groupdict().items()
            if value is not None
        ]

    return pairs


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise TableError(
            f"`--line` must be a regular expression of Python, got {printable(pattern)[:80]!r}: "
            f"{printable(str(error))}; for example {EXAMPLE}"
        ) from None
    if not compiled.groupindex:
        raise TableError(
            f"`--line` must name what it finds, such as (?P<loss>...), got "
            f"{printable(pattern)[:80]!r}; for example {EXAMPLE}"
        )
    return compiled


def _looked_at(line: str) -> str:
    """The first `LONGEST_TEXT` characters of a line, without colour codes."""
    text = line[:LONGEST_TEXT]
    return COLOURS.sub("", text) if "\x1b" in text else text


def _object(line: str) -> dict[str, Any] | None:
    """The object of a line in JSON; None for any other line."""
    try:
        row = json.loads(line)
        return flat_names(row) if isinstance(row, dict) else None
    except (ValueError, RecursionError):
        return None


def _pairs_of(row: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yields the name and value of each number or text of an object."""
    words = [str(row[key]).lower() for key in SPLIT_KEYS if key in row]
    split = next((word for word in words if word in SPLITS), None)
    match = SPLIT.fullmatch(split) if split else None
    for name, value in row.items():
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            yield _of_split(name, match) if match else name, value


def _of_split(name: str, split: re.Match[str]) -> str:
    """The name of a number; a loss without a split in its name gets the line's, as in
    `val_loss`."""
    return f"{SPLITS[split[1].lower()]}_loss" if plain_name(name) in BARE else name


@lru_cache(maxsize=4096)
def _column(name: str) -> str:
    """The name of a number, without words before the name that do not belong to it.

    >>> _column("INFO step"), _column("Finished Step"), _column("aux loss")
    ('step', 'step', 'aux_loss')
    """
    words = name.split(" ")
    while len(words) > 1 and words[0] in LEVELS:
        words = words[1:]
    whole = "_".join(words)
    if meaning(whole) is not None or whole.lower() in BARE or PERPLEXITY.search(plain_name(whole)):
        return whole.lower()
    ends = ("_".join(words[start:]).lower() for start in range(1, len(words)))
    return next((end for end in ends if meaning(end) in ("step", "tokens")), whole)
