"""The values of a table's columns as arrays: numbers, or codes that stand for texts."""

import math
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fathom.objectives.keys import parse_count
from fathom.search.formatting import format_count, printable
from fathom.search.tables.columns.columns import SCALED, Columns, as_argument
from fathom.search.tables.errors import TableError
from fathom.search.tables.open_table import MOST_ROWS, OpenTable
from fathom.search.tables.runs import Array

Value = TypeVar("Value", bool, float)
Codes = NDArray[np.int64]

MOST_TEXTS = 50_000
"""Largest number of texts of a column whose values are cached."""
MOST_VALUES = 2000
"""Largest number of different values of a setting; a column with more is a name or a result."""
TEXTS = ("seed", "run")
"""Columns whose values only tell runs apart."""
SPENT = ("seconds", "flops")
"""Columns with what a run spent; a cell without a number means that it is not known."""
LONGEST = 1e9
"""Seconds above which a number is read as a date."""
BLANK = ("", "nan", "none", "null", "na", "n/a", "-", "<na>")
"""Texts that stand for a number that is not there."""
EXPLODED = 1000.0
"""Loss from which on a run counts as diverged."""
NO_LOSS = tuple(text for text in BLANK if text != "nan")
THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
WHOLE = ("depth", "d_model", "d_ff", "params_total", "params_non_embedding")
LARGEST = {"depth": 10_000.0}
"""Column -> largest number in it; 1e18 for all other columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A column as texts: `values` are its distinct texts, and `codes` has the index of each row's
    text; equal numbers are written alike, such as 64 for 64.0."""

    codes: NDArray[np.int64]
    """Index in `values` of each row's value."""
    values: tuple[str, ...]
    """Each value once; an empty text for a blank."""
    cut: bool = False
    """True if the column has more than `MOST_VALUES` values, and only the first ones are kept."""

    def at(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "Texts":
        """The column at some rows, with only the values that occur there."""
        there, codes = np.unique(self.codes[rows], return_inverse=True)
        values = tuple(self.values[code] for code in there)
        return replace(self, codes=codes.astype(np.int64), values=values)

    @staticmethod
    def number(value: str) -> float | None:
        """The number that a value is; None for a text."""
        try:
            return float(value)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The rows of a table: an array with a value for each row, by Fathom's names of the columns."""

    rows: int
    """Number of rows of the table, including those without a depth or a loss."""
    values: Mapping[str, Array]
    """Fathom's name -> numbers, NaN where a row has none, infinite for the loss of a diverged run;
    `seed` and `run` have codes from 0, and -1 for a blank."""
    blank: int
    """Number of rows left out because they have no depth or no loss."""
    texts: Mapping[str, Texts] = field(default_factory=dict)
    """The table's name -> column, for other columns that may be settings."""

    def at(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "Cells":
        """The cells of some rows."""
        return replace(
            self,
            values={name: column[rows] for name, column in self.values.items()},
            texts={name: texts.at(rows) for name, texts in self.texts.items()},
        )


def read_cells(
    table: OpenTable, columns: Columns, others: Sequence[str] = (), largest: float = EXPLODED
) -> Cells:
    """Reads the columns that are used as numbers, and the columns `others` as texts; a loss of
    `largest` or more becomes infinite.

    Raises:
        TableError: at a value that is not what its column needs.
    """
    places = {ours: table.names.index(theirs) for ours, theirs in columns.taken.items()}
    found = {ours: array("d") for ours in places}
    read_as = {
        ours: _once(_reader(ours, columns.factors.get(ours, 1.0), largest)) for ours in places
    }
    readers = [(place, found[ours].append, read_as[ours]) for ours, place in places.items()]
    loss = places["loss"]
    depth = places.get("depth", loss)
    coded = {name: array("q") for name in others}
    known: dict[str, dict[object, int]] = {name: {} for name in others}
    coders = [(table.names.index(name), coded[name].append, _coder(known[name])) for name in others]
    is_blank, is_missing = _once(_is_blank), _once(_is_missing)
    rows = blank = 0
    for line, row in table.rows:
        rows += 1
        if rows > MOST_ROWS:
            raise TableError(
                f"{table.label} must have at most {format_count(MOST_ROWS)} rows, got more; keep "
                "every tenth evaluation"
            )
        if is_blank(row[depth]) or is_missing(row[loss]):
            blank += 1
            continue
        for place, append_code, code in coders:
            append_code(code(row[place]))
        for place, append, read in readers:
            try:
                append(read(row[place]))
            except ValueError as error:
                theirs = table.names[place]
                leave = f"; --map {as_argument(theirs)}=ignore leaves it out"
                raise TableError(
                    f"{table.label}:{line}: {printable(theirs)!r} {error}, got "
                    f"{printable(str(row[place]))[:60]!r}" + leave * (place not in (depth, loss))
                ) from None
    if rows == blank:
        lack = "none" if not rows else f"{rows} without a depth or a loss"
        raise TableError(f"{table.label} must have a row for each run or evaluation, got {lack}")
    values = {ours: np.frombuffer(column, dtype=np.float64) for ours, column in found.items()}
    if "d_model" not in values and "aspect_ratio" in values:
        values["d_model"] = np.round(values["depth"] * values["aspect_ratio"])
    texts = {name: _texts(coded[name], known[name]) for name in others}
    return Cells(rows=rows, values=values, blank=blank, texts=texts)


def numbered(columns: Iterable[Array | Codes]) -> Codes:
    """A whole number for each row, equal where all columns are equal, (rows,)."""
    codes = np.zeros(1, dtype=np.int64)
    for column in columns:
        _, numbers = np.unique(np.nan_to_num(column, nan=-1.0), return_inverse=True)
        _, codes = np.unique(codes * (int(numbers.max()) + 1) + numbers, return_inverse=True)
    return codes


def _once(read: Callable[[object], Value]) -> Callable[[object], Value]:
    """Returns `read` with a cache of its results for up to `MOST_TEXTS` texts."""
    known: dict[str, Value] = {}

    def remembered(value: object) -> Value:
        if type(value) is not str:
            return read(value)
        found = known.get(value)
        if found is None:
            found = read(value)
            if len(known) < MOST_TEXTS:
                known[value] = found
        return found

    return remembered


def _coder(codes: dict[object, int]) -> Callable[[object], int]:
    """Returns a function that numbers values in order of appearance; -1 beyond `MOST_VALUES`."""

    def code(value: object) -> int:
        key = value if isinstance(value, str) else str(value)
        found = codes.get(key)
        if found is None:
            found = codes[key] = len(codes) if len(codes) < MOST_VALUES else -1
            if found < 0:
                del codes[key]
        return found

    return code


def _texts(coded: "array[int]", codes: Mapping[object, int]) -> Texts:
    """The column of the codes `coded`, where texts for the same number, or for a blank, become
    one."""
    forms: dict[str, int] = {}
    places = [forms.setdefault(form(str(value)), len(forms)) for value in codes]
    found = np.frombuffer(coded, dtype=np.int64)
    cut = bool((found < 0).any())
    return Texts(codes=np.array([*places, 0])[found], values=tuple(forms), cut=cut)


def form(text: str) -> str:
    """A value in canonical form: a number as 64 or 0.1, a blank as the empty text.

    >>> form(" 64.0"), form("1e-1"), form("None"), form("AdamW")
    ('64', '0.1', '', 'AdamW')
    """
    text = text.strip()
    if text.lower() in BLANK:
        return ""
    try:
        return f"{float(text.replace(',', '') if THOUSANDS.fullmatch(text) else text):.10g}"
    except ValueError:
        return text


def _reader(ours: str, factor: float, largest: float) -> Callable[[object], float]:
    if ours in TEXTS:
        codes: dict[str, float] = {}
        return lambda value: (
            -1.0 if _is_blank(value) else codes.setdefault(str(value).strip(), float(len(codes)))
        )
    if ours == "loss":
        return lambda value: _loss(value, largest)
    if ours in SPENT:
        return partial(_spent, LONGEST if ours == "seconds" else math.inf)
    return lambda value: _checked(ours, _number(ours, value) * factor)


def _is_blank(value: object) -> bool:
    return value is None or str(value).strip().lower() in BLANK


def _is_missing(value: object) -> bool:
    """True for a blank loss, which was not measured; `nan` is not blank, but a diverged loss."""
    return value is None or (isinstance(value, str) and value.strip().lower() in NO_LOSS)


def _loss(value: object, largest: float) -> float:
    number = _number("loss", value)
    return number if abs(number) < largest else math.inf


def _spent(largest: float, value: object) -> float:
    try:
        number = _number("flops", value)
    except ValueError:
        return math.nan
    return number if number < largest else math.nan


def _number(ours: str, value: object) -> float:
    """The number that a value stands for; NaN for a blank.

    Raises:
        ValueError: for any other text; the message says what the column must hold.
    """
    if isinstance(value, float | int) and not isinstance(value, bool):
        # A whole number in JSON may have hundreds of digits.
        return math.inf if abs(value) > sys.float_info.max else float(value)
    text = "" if value is None else str(value).strip()
    if text.lower() in BLANK:
        return math.nan
    if THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    try:
        return float(text.removesuffix("%") if ours == "loss" else text)
    except ValueError:
        pass
    try:
        return float(parse_count(text)) if ours in SCALED else _refuse(ours)
    except ValueError:
        return _refuse(ours)


def _refuse(ours: str) -> float:
    example = "such as 3.21, with a decimal point"
    if ours in SCALED:
        example = "such as 124000000 or 124M"
    elif ours in WHOLE:
        example = "such as 12"
    raise ValueError(f"must hold a number {example}, or nothing")


def _checked(ours: str, number: float) -> float:
    if math.isnan(number):
        return number
    largest = LARGEST.get(ours, 1e18)
    least = 0.0 if ours in ("tokens", "step", "seconds_per_step", "learning_rate", "d_ff") else 1.0
    if ours in WHOLE and math.isfinite(number):
        number = float(round(number)) if abs(number - round(number)) < 1e-6 or number > 1e6 else -1
    if not least <= number <= largest:
        kind = "a whole number" if ours in WHOLE else "a number"
        raise ValueError(f"must hold {kind} from {least:g} to {largest:g}")
    return number
