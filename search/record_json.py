"""Records as JSON and back; whatever is read is validated, since files can be damaged or forged."""

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache
from typing import Any, TypeVar

import pydantic_core
from pydantic import TypeAdapter, ValidationError

from fathom.models.shape import DEFAULTS, RARE, Shape
from fathom.models.spend import OTHER_COINS, Coin
from fathom.search.formatting import printable
from fathom.search.records import CurvePoint, Outcome, Report, TrialRecord, TrialSpec

T = TypeVar("T")

TRIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Pattern of a trial name. Checkpoints are named by trials, so no name may lead out of the
folder."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LATEST = 2**33
"""Upper limit of times, in seconds: the year 2242. Calendars of other libraries end in 2262."""
LARGEST_REAL = 3.5e38
"""Upper limit of every other number: about the largest that float32 holds."""
LARGEST = 10**18
"""Upper limit of every count of a study: parameters, tokens and seeds."""
LEAST_SECONDS = 1e-9
"""Lower limit of the seconds of a training."""
SPENT = {coin.name_in_records: coin for coin in OTHER_COINS}
"""Coin of `TrialSpec.shared_spend`, by the key of a line that holds its amount."""
OF_SPENDING = ("shared_spend", "shared_tokens")
"""Fields of a trial's description that are written only if they are known, after all others."""
OF_AN_ENCODER = ("encoder_depth", "source_vocab_size")
"""Fields of a shape that are written only if it has an encoder."""
EVENT = "event"
"""Key of a line of the journal: what happened."""
DERIVED = (
    *("params_total", "params_non_embedding", "params_active", "train_flops_per_token"),
    *("tokens", "loss", "step_seconds", "tokens_per_second"),
)
"""Keys of a line of `records.jsonl` that follow from others, written for readers of the file."""
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors that may be raised while reading a line that Fathom did not write."""


class DamagedFileError(ValueError):
    """A file of a run holds what Fathom did not write; the message names the line and the
    remedy."""


def problem_of(error: Exception) -> str:
    """The reason, in words, why a line raised one of the errors in `DAMAGE`."""
    match error:
        case json.JSONDecodeError() | RecursionError():
            return "it is not JSON"
        case UnicodeDecodeError():
            return "it is not UTF-8 text"
        case KeyError():
            return f"it lacks `{error.args[0]}`"
    return str(error)


def parse_line(line: bytes) -> dict[str, Any]:
    """The JSON object in a line.

    Raises:
        TypeError, ValueError: when it is no JSON object, or has a number or text that no record
            has.
    """
    try:
        values = pydantic_core.from_json(line)
    except ValueError:
        values = json.loads(line.decode())  # four times as slow, but it tells what is wrong
    if not isinstance(values, dict):
        raise TypeError("it is not a JSON object")
    _check_numbers(values.values(), b"Infinity" in line)
    if b"\\" in line or not line.isascii():
        _check_texts(values)
    return values


def _check_numbers(values: Iterable[object], infinite: bool) -> None:
    """Refuses numbers that no record has, in values and in the lists and objects among them.

    Infinity is refused unless the line spells it out (`infinite`), as 1e999 reads as infinity too.
    """
    for value in values:
        if isinstance(value, float):
            if abs(value) > LARGEST_REAL and not (infinite and math.isinf(value)):
                raise ValueError(f"{value:g} is larger than any number of a training")
        elif isinstance(value, int):
            if not -LARGEST < value < LARGEST:
                raise ValueError(f"{str(value)[:20]}... is larger than any count")
        elif isinstance(value, dict):
            _check_numbers(value.values(), infinite)
        elif isinstance(value, list):
            _check_numbers(value, infinite)


def _check_texts(value: object) -> None:
    """Refuses text with control characters, which would command a terminal or fit no file."""
    for text in _texts(value):
        if not text.isprintable():
            raise ValueError(_unprintable(text))


def check_controls(value: object) -> None:
    """Raises `ValueError` for text with characters that command a terminal; line ends and
    tabulators are allowed."""
    for text in _texts(value):
        if CONTROL.search(text):
            raise ValueError(_unprintable(text))


def _unprintable(text: str) -> str:
    return f"the text '{printable(text)[:40]}' has characters that can't be printed"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for part in value:
            yield from _texts(part)


def to_values(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON values: enums become text, tuples lists."""
    values: dict[str, Any] = _adapter_of(type(value)).dump_python(value, mode="json")
    spec = values.get("spec", values)
    spend, tokens = (spec.pop(name, None) for name in OF_SPENDING)
    if spend is not None:
        spec[Coin(spend["coin"]).name_in_records] = spend["amount"]
    if tokens is not None:
        spec["shared_tokens"] = tokens
    shape = spec.get("shape", values)
    for option in RARE:
        if option in shape and shape[option] == DEFAULTS[option]:
            del shape[option]
    if not shape.get("encoder_depth", True):
        for name in OF_AN_ENCODER:
            del shape[name]
    return values


def from_values(kind: type[T], values: object) -> T:
    """A dataclass made from its fields as JSON values; absent fields get their defaults.

    Raises:
        ValueError: for a field that is missing, unknown or of another type.
    """
    return _validated(kind, json.dumps(values))


def _validated(kind: type[T], text: str | bytes) -> T:
    try:
        found: T = _adapter_of(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        raise ValueError(_first_problem(error)) from None
    return found


def to_json(record: TrialRecord) -> dict[str, Any]:
    """A line of `records.jsonl`: the trial, its sizes and results, then its curve."""
    shape, values = record.spec.shape, to_values(record)
    return {
        **values.pop("spec"),
        **shape.counts,
        "train_flops_per_token": shape.train_flops_per_token,
        "tokens": record.tokens,
        "loss": record.loss,
        "step_seconds": record.step_seconds,
        "tokens_per_second": record.tokens_per_second,
        **values,
    }


def check_keys(line: dict[str, Any], known: Set[str]) -> None:
    """Raises `ValueError` if a line has a key that this version does not write."""
    if unknown := line.keys() - known:
        raise ValueError(f"`{printable(min(unknown))[:40]}` is unknown to this version")


def from_json(line: dict[str, Any]) -> TrialRecord:
    """The record in a line of `records.jsonl`; derived sizes and results are computed again.

    Raises:
        KeyError, TypeError, ValueError: when it is not a line that `to_json` wrote.
    """
    known = {*_names(TrialSpec), *_names(TrialRecord), *DERIVED, EVENT}
    check_keys(line, known - {"shared_spend"} | SPENT.keys())
    spec = _fields_of(TrialSpec, line, may_lack=OF_SPENDING)
    for name in sorted(SPENT.keys() & line.keys()):
        if "shared_spend" in spec or not isinstance(line[name], float):
            raise ValueError(f"`{name}` can't be {str(line[name])[:40]!r}")
        spec["shared_spend"] = {"amount": line[name], "coin": SPENT[name]}
    rest = _fields_of(TrialRecord, line, may_lack=("spec",))
    # Not `json.dumps`, which would take a quarter of the time of reading records.
    record = _validated(TrialRecord, pydantic_core.to_json(rest | {"spec": spec}))
    _check_spec(record.spec)
    _check_curve(record.curve)
    _check_end(record)
    return record


def report_from_json(line: dict[str, Any]) -> Report:
    """The report in a line of the journal."""
    check_keys(line, {*_names(Report), EVENT, "trial"})
    report = from_values(Report, _fields_of(Report, line))
    _check_curve(report.points)
    return report


def shape_from_json(values: object) -> Shape:
    """A shape made from its fields; options that a file does not name get their defaults."""
    shape = from_values(Shape, values)
    if shape.params_total >= LARGEST:
        raise ValueError(f"a shape can't have {shape.params_total:.3g} parameters")
    return shape


def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    return _adapter(kind)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:  # to be made once: that takes milliseconds
    return TypeAdapter(kind)


def _fields_of(kind: type, line: dict[str, Any], *, may_lack: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass that a line has; raises `KeyError` if it lacks one that it must
    have."""
    return {name: line[name] for name in _names(kind) if name in line or name not in may_lack}


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    places = [place for place in first["loc"] if isinstance(place, str) and place != "[key]"]
    name = f"`{places[-1]}`" if places else "it"
    match first["type"]:
        case "missing":
            return f"it lacks {name}"
        case "unexpected_keyword_argument":
            return f"{name} is unknown to this version"
        case "value_error":
            return str(first["ctx"]["error"])
    return f"{name} can't be {str(first['input'])[:40]!r}"


def _check_spec(spec: TrialSpec) -> None:
    if not TRIAL.fullmatch(spec.trial):
        raise ValueError(f"`trial` can't be {spec.trial[:40]!r}")
    sizes = ("budget", "horizon_tokens", "learning_rate", "rate_scale", "decay_scale")
    values = {name: getattr(spec, name) for name in (*sizes, "shared_tokens")}
    if spec.shared_spend:
        values[spec.shared_spend.coin.name_in_records] = spec.shared_spend.amount
    for name, value in values.items():
        if not (value is None and name == "shared_tokens") and not 0 < value < math.inf:
            raise ValueError(f"`{name}` can't be {value}")
    if 1 not in spec.scale:
        raise ValueError("`rate_scale` and `decay_scale` can't both differ from 1")


def _check_curve(curve: tuple[CurvePoint, ...]) -> None:
    step, tokens = 0, 0
    for point in curve:
        if point.step <= step or point.tokens <= tokens:
            raise ValueError(f"`curve` does not go on after step {step}")
        if not LEAST_SECONDS <= point.train_seconds < math.inf:
            raise ValueError(f"`train_seconds` can't be {point.train_seconds}")
        _check_moment("time", point.time)
        step, tokens = point.step, point.tokens


def _check_end(record: TrialRecord) -> None:
    """Refuses a record without what its outcome implies, such as a loss of a finished trial."""
    _check_moment("started", record.started)
    if record.outcome is not None:
        _check_moment("ended", -1.0 if record.ended is None else record.ended)
    if record.outcome is Outcome.FINISHED and not record.curve:
        raise ValueError("a finished trial must have a loss")
    for point in record.curve[:-1] if record.outcome is Outcome.DIVERGED else record.curve:
        if not math.isfinite(point.loss) or math.isinf(point.train_loss):
            raise ValueError(f"`loss` can't be {point.loss} before a trial has diverged")
    if record.outcome is Outcome.STOPPED and not record.rungs:
        raise ValueError("a stopped trial must have a rung")
    if any(tokens < 1 or not math.isfinite(loss) for tokens, loss in record.rungs.items()):
        raise ValueError("a rung must be at 1 token or more, with a loss")
    if record.rungs and not record.curve:
        raise ValueError("rungs must come with a curve")


def _check_moment(name: str, seconds: float) -> None:
    if not 0 <= seconds < LATEST:
        raise ValueError(f"`{name}` can't be {seconds}")
