"""What is asked, and the study of smaller models that answers it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from fathom.models.shape import Count
from fathom.search.formatting import exact_count
from fathom.search.study.budget import count_of
from fathom.search.study.config import StudyConfig, study_of
from fathom.search.study.draft import eval_tokens
from fathom.search.study.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A size, its training and its text, and what may be spent on finding its depth."""

    params: int
    tokens: int
    """Training tokens of a model of that size."""
    data: str
    """As `objective.corpus`."""
    tokenizer: str
    hours: float
    gpus: int
    """Trials at a time, one on each GPU; 0 for what the machine has."""
    count: Count

    @property
    def command(self) -> str:
        """What a person types to ask it."""
        words = ["fathom", "ask", "--params", exact_count(self.params)]
        words += ["--tokens", exact_count(self.tokens), "--data", self.data]
        words += ["--tokenizer", self.tokenizer, "--hours", f"{self.hours:g}"]
        words += ["--gpus", str(self.gpus)] if self.gpus else []
        return shlex.join([*words, "--count", self.count])

    @property
    def name(self) -> str:
        """The study's, for example `ask-1B-20B`."""
        return f"ask-{exact_count(self.params)}-{exact_count(self.tokens)}"

    @property
    def tokens_per_parameter(self) -> float:
        """The same for the small models: the horizon is part of the question."""
        return self.tokens / self.params

    def study(self, budgets: Sequence[int]) -> StudyConfig:
        """The study of these budgets; raises `ConfigError` where the question makes none."""
        return study_of(self.keys(budgets))

    def keys(self, budgets: Sequence[int]) -> dict[str, object]:
        """The keys of that study's file that are no defaults."""
        keys: dict[str, object] = {
            "study": self.name,
            "objective": {
                "name": "language",
                "corpus": self.data,
                "tokenizer": self.tokenizer,
                "eval_tokens": eval_tokens(round(budgets[0] * self.tokens_per_parameter)),
            },
            "budgets": [exact_count(params) for params in budgets],
            "count": self.count.value,
            "tokens_per_parameter": float(f"{self.tokens_per_parameter:.6g}"),
        }
        if self.gpus:
            keys["resources"] = {"gpus_per_trial": 1, "max_concurrent_trials": self.gpus}
        return keys


def question(
    *, params: str, tokens: str | None, data: str, tokenizer: str, hours: float, gpus: int,
    count: Count,
) -> Question:  # fmt: skip
    """The question of a command line; without `tokens`, 20 for each parameter.

    Raises:
        ConfigError: when a number is none, or the time is no time.
    """
    if not (isfinite(hours) and hours > 0):
        raise ConfigError(f"`--hours` must be above 0, got {hours:g}; for example 8")
    if not count.of_parameters:
        raise ConfigError(
            f"`--count` must be `total`, `non_embedding` or `matrices`, got {count}; a law over "
            "budgets of another kind says nothing of parameters"
        )
    size = count_of("--params", params)
    return Question(
        params=size,
        tokens=count_of("--tokens", tokens) if tokens else 20 * size,
        data=data,
        tokenizer=tokenizer,
        hours=hours,
        gpus=gpus,
        count=count,
    )
