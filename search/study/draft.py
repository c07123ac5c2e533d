"""The study that `fathom init` drafts: as large as the text and this machine allow."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fathom.objectives.keys import parse_count
from fathom.objectives.text.corpus import read_corpus
from fathom.objectives.text.encode import encode
from fathom.search.formatting import exact_count, format_seconds
from fathom.search.study.affordable import (
    FEWER_TOKENS,
    MOST_EPOCHS,
    TOKENS,
    largest_affordable,
    three_budgets,
)
from fathom.search.study.config import StudyConfig, study_of
from fathom.search.study.errors import ConfigError
from fathom.search.study.plan import Machine, plan_study, this_machine

VALIDATION_FRACTION = 0.1
EVALUATION_SHARE = 64
"""Training tokens per token of an evaluation: all evaluations together then cost about a tenth of
the training."""
EVAL_TOKENS = (4096, 131_072)
"""Smallest and largest number of tokens per evaluation: enough to compare shapes, and the
default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Size and vocabulary of the text that a drafted study trains on."""

    corpus: str
    tokenizer: str
    size_bytes: int
    characters: int
    """Number of different characters."""
    train_tokens: int
    vocab_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A drafted study with its hours and epochs."""

    config: StudyConfig
    labels: tuple[str, ...]
    """Names of the budgets."""
    tokens_per_parameter: int
    """Training tokens per parameter of the largest budget. The other budgets train on as many
    tokens: with few, seeds of a small model differ by more than depths do."""
    machine: Machine
    hours: float
    epochs: float
    """Epochs of the training text."""
    reason: str = ""
    """The reason why the study is not larger."""

    @property
    def horizon(self) -> str:
        """Training tokens of every budget, in short."""
        return exact_count(self.config.tokens or 0)

    @property
    def words(self) -> str:
        """The budgets and their training tokens in words."""
        return f"{', '.join(self.labels)} for {self.horizon} tokens"


def look(corpus: str, tokenizer: str) -> Seen:
    """Size and vocabulary of a text; raises `ValueError` if it can't be read."""
    text = read_corpus(corpus, validation_fraction=VALIDATION_FRACTION)
    ids = encode(text, tokenizer=tokenizer)
    return Seen(
        corpus=corpus,
        tokenizer=tokenizer,
        size_bytes=len(text.train) + len(text.validation),
        characters=len({*text.train.decode()} | {*text.validation.decode()}),
        train_tokens=len(ids.train),
        vocab_size=ids.vocab_size,
    )


def choose(seen: Seen, study: str, *, budgets: str | None, hours: float) -> Draft:
    """The largest study within the hours and `MOST_EPOCHS`; for budgets that are named, the
    longest.

    Raises:
        ConfigError: when even the smallest is too large, or the budgets are no numbers.
    """
    options = three_budgets() if budgets is None else _longer_trainings(_parsed(budgets))
    drafts = _drafts(seen, study, options)
    chosen, refused = largest_affordable((draft, not _excess(draft, hours)) for draft in drafts)
    if refused is None:
        reason = f"{TOKENS} tokens a parameter are the usual horizon"
    else:
        reason = _excess(refused, hours)
    if chosen is None:
        too_long = refused is not None and refused.epochs > MOST_EPOCHS
        remedy = "give it more text" if too_long else "allow more `--hours`"
        raise ConfigError(f"no study is small enough: {reason}; {remedy}")
    return replace(chosen, reason=reason)


def study_name(path: Path) -> str:
    """The name of a study, from its file's name; characters that it can't have are replaced."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).lstrip("._-")[:64] or "study"


def _longer_trainings(budgets: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
    yield from ((budgets, tokens) for tokens in (*FEWER_TOKENS, TOKENS))


def _drafts(
    seen: Seen, study: str, options: Iterable[tuple[tuple[int, ...], int]]
) -> Iterator[Draft]:
    machine = None
    for budgets, tokens_per_parameter in options:
        config = _config(seen, study, budgets, tokens_per_parameter)
        machine = machine or this_machine(config)  # asking a driver takes its time
        yield _draft(config, tokens_per_parameter, machine, seen)


def _parsed(budgets: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({parse_count(budget) for budget in budgets.split(",")}))
    except ValueError as error:
        raise ConfigError(f"`--budgets` such as 1M,3M,10M: each {error}") from error


def _config(
    seen: Seen, study: str, budgets: tuple[int, ...], tokens_per_parameter: int
) -> StudyConfig:
    tokens = tokens_per_parameter * budgets[-1]
    return study_of(
        {
            "study": study,
            "objective": {
                "name": "language",
                "corpus": seen.corpus,
                "tokenizer": seen.tokenizer,
                "eval_tokens": eval_tokens(tokens),
                "validation_fraction": VALIDATION_FRACTION,
            },
            "budgets": budgets,
            "count": "non_embedding",
            "tokens": tokens,
        }
    )


def _draft(config: StudyConfig, tokens_per_parameter: int, machine: Machine, seen: Seen) -> Draft:
    plans = plan_study(config, seen.vocab_size, machine)
    return Draft(
        config=config,
        labels=tuple(plan.budget.label for plan in plans),
        tokens_per_parameter=tokens_per_parameter,
        machine=machine,
        hours=sum(plan.hours for plan in plans),
        epochs=plans[-1].budget.tokens / seen.train_tokens,
    )


def eval_tokens(horizon: int) -> int:
    """Tokens per evaluation for a training of this many tokens: a power of 2."""
    fewest, most = EVAL_TOKENS
    wanted = max(fewest, min(horizon // EVALUATION_SHARE, most))
    return 1 << wanted.bit_length() - 1


def _excess(draft: Draft, hours: float) -> str:
    """The reason why a draft is too large: its epochs or its hours; empty if it is not."""
    if draft.epochs > MOST_EPOCHS:
        return f"{draft.words} would be {draft.epochs:.1f} epochs of the text, not {MOST_EPOCHS}"
    if draft.hours > hours:
        time = format_seconds(3600 * draft.hours)
        return f"{draft.words} would take {time}, not {format_seconds(3600 * hours)}"
    return ""
