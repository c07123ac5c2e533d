"""Groups of keys in a study file, numbers as people write them, and keys that all objectives
have."""

import ast
import inspect
import re
from abc import ABC, abstractmethod
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

LONGEST_VALUE = 80
"""Characters of a wrong value that an error message repeats."""
SUFFIXES = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
PLACES = ("corpus", "data", "train")
"""Keys of an objective that may name the place of its data; the first one given counts."""
EVAL_CHUNK_TOKENS = 8192
"""Most tokens that are evaluated at once; fewer if their logits would be too many."""
LOGITS_AT_ONCE = 2**26
"""Most logits that exist at once, in training and in evaluation; a quarter of a gigabyte in
float32."""
BATCH_WIDTHS = 8
"""Number of different widths of a batch of rows, up to the context."""
TOKENS_FROM = 10_000
"""Smallest horizon that counts tokens; a smaller number counts tokens per parameter."""
MOST_COUNTED = 10**18
"""Largest number of tokens or parameters."""
MOST_PARAMETERS = 10**12
"""Largest number of parameters of a model."""
MOST_FLOPS = 1e30
"""Largest number of operations of a training, a thousand times beyond any that was trained."""
SECONDS = {"s": 1, "min": 60, "h": 3600}
"""Seconds of each unit of a duration."""
DURATION_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)")
COUNT_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]{1,3})?)\s*([kmbt]?)", re.IGNORECASE)


def logit_tokens(vocab_size: int) -> int:
    """Number of tokens whose logits may exist at once: a power of two, to divide most batches."""
    most = max(1, LOGITS_AT_ONCE // vocab_size)
    return 1 << (most.bit_length() - 1)


def eval_chunk_tokens(vocab_size: int) -> int:
    """Number of tokens evaluated at once."""
    return min(EVAL_CHUNK_TOKENS, logit_tokens(vocab_size))


def short(value: object) -> str:
    """The `repr` of a value for an error message, cut after `LONGEST_VALUE` characters."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."


def _written(value: object, rule: str) -> Decimal:
    """A positive number with an optional suffix, exactly as it is written.

    Raises:
        ValueError: if the value is anything else; the message begins with the rule.
    """
    match = COUNT_PATTERN.fullmatch(str(value).strip().replace("_", ""))
    if isinstance(value, bool) or match is None:
        raise ValueError(f"{rule}, got {short(value)}")
    return Decimal(match[1]) * SUFFIXES.get(match[2].lower(), 1)


def parse_count(value: object) -> int:
    """A whole number, also written `300k`, `1.5M`, `2B` or `1e6`.

    >>> parse_count("1.5M")
    1500000

    Raises:
        ValueError: if the value is anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be a number such as 300000, 300k or 1.5M, got {short(value)}")
    number = _written(value, "must be a positive number such as 300000, 300k or 1.5M")
    if not 1 <= number <= MOST_COUNTED:
        raise ValueError(f"must be between 1 and 1e18, got {short(value)}")
    if number % 1:
        raise ValueError(f"must be a whole number, got {short(value)}")
    return int(number)


def parse_horizon(value: object) -> float:
    """The tokens of a training: a count such as `10M`, or tokens per parameter if the number is
    below `TOKENS_FROM`.

    >>> parse_horizon("10M"), parse_horizon(0.5)
    (10000000.0, 0.5)

    Raises:
        ValueError: if the value is neither.
    """
    number = _written(value, "must be tokens per parameter such as 20, or tokens such as 10M")
    if number >= TOKENS_FROM:
        return float(parse_count(value))
    if number < Decimal("0.001"):
        raise ValueError(f"must be at least 0.001 tokens per parameter, got {short(value)}")
    return float(number)


def parse_flops(value: object) -> float:
    """A number of operations, such as `1e15`, or a count such as `500B`.

    >>> parse_flops("1e15"), parse_flops("2.5T")
    (1000000000000000.0, 2500000000000.0)

    Raises:
        ValueError: if the value is anything else, or not between 1 and 1e30.
    """
    number = _written(value, "must be a number of FLOPs such as 1e15")
    if not 1 <= number <= MOST_FLOPS:
        raise ValueError(f"must be between 1 and {MOST_FLOPS:g} FLOPs, got {short(value)}")
    return float(number)


def parse_duration(value: object) -> object:
    """The seconds of a duration such as `20s`, `5min` or `1.5h`; any other value as it is.

    >>> parse_duration("5min"), parse_duration("300k")
    ('300', '300k')
    """
    match = DURATION_PATTERN.fullmatch(value.strip()) if isinstance(value, str) else None
    return str(Decimal(match[1]) * SECONDS[match[2]]) if match else value


def _refuse_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, got {str(value).lower()}")
    return value


# The JSON schema needs the pattern: it cannot express `parse_count`.
CountText = Annotated[str, Field(pattern=r"^[0-9_]+(\.[0-9]+)?([eE]\+?[0-9]+)?\s*[kKmMbBtT]?$")]
DurationText = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?\s*(s|min|h)$")]
Number = Annotated[int, BeforeValidator(parse_count, json_schema_input_type=int | CountText)]
Amount = Annotated[
    int, BeforeValidator(parse_count, json_schema_input_type=int | CountText | DurationText)
]
Horizon = Annotated[
    float, BeforeValidator(parse_horizon, json_schema_input_type=int | float | CountText)
]
Flops = Annotated[
    float, BeforeValidator(parse_flops, json_schema_input_type=int | float | CountText)
]
Whole = Annotated[int, BeforeValidator(_refuse_boolean)]
Real = Annotated[float, BeforeValidator(_refuse_boolean)]
# The upper bounds are far beyond any study; they keep sums finite and planning instant.
Positive = Annotated[Whole, Field(ge=1, le=10**9)]
Parameters = Annotated[Number, Field(le=MOST_PARAMETERS)]
Few = Annotated[Whole, Field(ge=1, le=1000)]
Share = Annotated[Real, Field(ge=0.0, lt=1.0)]
PositiveReal = Annotated[Real, Field(gt=0.0)]
Multiple = Annotated[Real, Field(ge=1e-3, le=1e6)]


class Group(BaseModel):
    """A group of keys in a study file: unknown keys are errors, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        """The schema, with docstrings as descriptions of keys; docstrings are only read here."""
        schema = handler(core_schema)
        keys = handler.resolve_ref_schema(schema).get("properties", {})
        for base in cls.__mro__:
            for name, text in _docstrings(base).items() if issubclass(base, Group) else ():
                if name in keys:
                    keys[name].setdefault("description", text)
        return schema


def _docstrings(group: type) -> dict[str, str]:
    """Docstring of each key of a group, read from the source."""
    whole, found = ast.parse(inspect.getsource(group)).body[0], {}
    for statement, below in pairwise(whole.body if isinstance(whole, ast.ClassDef) else ()):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


class RuleError(ValueError):
    """A key whose value breaks a rule; the message is the key's name, then the rule."""

    def __init__(self, key: str, rule: str, *, value: str = "") -> None:
        """`key` is relative to its group, such as `model.build`; the message quotes `value` if the
        rule is about that value alone."""
        self.key = key
        self.rest = f"{f': {value}' if value else ''}` {rule}"
        super().__init__(f"`{key}{self.rest}")


class ObjectiveConfig(Group, ABC):
    """Keys of an objective, with the facts about it that planning needs; imports no torch."""

    name: str
    loss_unit: ClassVar[str] = "nats per token"
    """Unit of the held-out loss."""
    of_command: ClassVar[bool] = False
    """True if only `train.command` reads the data."""
    bidirectional: ClassVar[bool] = False
    """True if a model may attend to both sides, since the answers are not among its inputs."""
    has_sources: ClassVar[bool] = False
    """True if batches have sources, which an encoder reads."""
    batch_widths: ClassVar[int] = 1
    """Number of different widths of a batch."""
    cached: ClassVar[bool] = False
    """True if data, once prepared, can be kept in a folder for the next start."""

    if TYPE_CHECKING:  # a field of most objectives, a property where other keys settle it

        @property
        def context(self) -> int:
            """Tokens of the longest sequence."""

    @abstractmethod
    def vocab_size(self) -> int:
        """Number of token ids, equal to `vocab_size` of the prepared objective.

        Raises:
            ObjectiveError: if data that it depends on are missing or do not suit.
        """

    def source_vocab_size(self) -> int:
        """Number of token ids of the sources if they have a vocabulary of their own; 0 if both
        sides share one. It must be quick, as it is called for many thousand shapes."""
        return 0

    @abstractmethod
    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys for a short training: at most `context` tokens in a sequence and `eval_tokens`
        in an evaluation, where the task allows it."""

    def train_tokens(self) -> int:
        """Training tokens of an epoch of fixed data; 0 if data are not fixed, or if the number is
        not known without reading all of them."""
        return 0

    def most_train_tokens(self) -> int:
        """Upper bound on the number of training tokens, from the sizes of files; 0 if there is
        none."""
        return self.train_tokens()

    def epochs_at_least(self, tokens: int) -> float | None:
        """Least number of epochs that `tokens` tokens take, by the upper bound on the data's
        tokens; None if there is no bound.

        Raises:
            ObjectiveError: when the data can't be read.
        """
        epoch = self.most_train_tokens()
        return tokens / epoch if epoch else None

    @property
    def pretraining_tokens(self) -> int:
        """Number of tokens at the start of the horizon that come from other data than the measured
        loss; during these no trial is stopped for its loss."""
        return 0

    @property
    def evaluation_tokens(self) -> int:
        """Tokens of an evaluation, padding included; 0 if they are not known."""
        return 0

    def data_note(self) -> str:
        """A line on a probable mistake in the data, such as rows far shorter than the context, with
        the remedy; empty if there is none. Reads the data."""
        return ""

    @property
    def place(self) -> str:
        """Place of the data, as a key names it; the objective's name if no key does."""
        settings = self.settings()
        found = next((settings[key] for key in PLACES if settings.get(key)), self.name)
        return " and ".join(found) if isinstance(found, tuple) else str(found)

    def files_on_nodes(self) -> dict[str, int]:
        """Least size in bytes of each data file that every training machine must see, by the file's
        path; empty for most objectives, whose data are sent to the machines.

        Raises:
            ObjectiveError: if the data are missing or do not suit.
        """
        return {}

    def settings(self) -> dict[str, Any]:
        """The keys and their values without the name."""
        return self.model_dump(exclude={"name"})


class NextTokenConfig(ObjectiveConfig):
    """Keys that the objectives of next-token prediction share, with `context` and `eval_tokens`."""

    if TYPE_CHECKING:  # a field, whose place among the keys differs

        @property
        def eval_tokens(self) -> int:
            """Held-out tokens in an evaluation."""

    @model_validator(mode="after")
    def _check_evaluation(self) -> Self:
        if self.eval_tokens < self.context:
            raise RuleError(
                "eval_tokens",
                f"must be at least `context`, got {self.eval_tokens} and {self.context}; use "
                f"eval_tokens: {self.context} or more",
            )
        return self

    @property
    def evaluation_tokens(self) -> int:
        """Tokens of an evaluation."""
        return self.eval_tokens

    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys with sequences of at most `context` tokens, and at most `eval_tokens` of them in
        an evaluation, but one sequence at least."""
        context = min(context, self.context)
        eval_tokens = max(context, min(eval_tokens, self.eval_tokens))
        return self.model_copy(update={"context": context, "eval_tokens": eval_tokens})
