"""The question of `fathom ask`, and the study of smaller models that answers it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from fathom.models.shape import Count
from fathom.search.formatting import exact_count
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.options import count_of
from fathom.search.study.file.study_file import study_of
from fathom.search.study.hardware.gpus import gpu_named
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.affordable import TOKENS
from fathom.search.study.planning.draft import eval_tokens, objective_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question: a model size, its training tokens and text, and the hours that the search may
    take."""

    params: int
    tokens: int
    """Training tokens of a model of this size."""
    data: str
    """Corpus, as in `objective.corpus`, or token ids, as in `objective.train`."""
    tokenizer: str
    hours: float
    gpus: int
    """Number of GPUs, each with one trial at a time; 0 for those that the machine has."""
    gpu: str
    """Type of the GPUs; empty for the GPUs of this machine or its cluster."""
    count: Count

    @property
    def command(self) -> str:
        """The command line that asks this question."""
        command = ["fathom", "ask", "--params", exact_count(self.params)]
        command += ["--tokens", exact_count(self.tokens), "--data", self.data]
        command += ["--tokenizer", self.tokenizer, "--hours", f"{self.hours:g}"]
        command += ["--gpus", str(self.gpus)] if self.gpus else []
        command += ["--gpu", self.gpu] if self.gpu else []
        return shlex.join([*command, "--count", self.count])

    @property
    def name(self) -> str:
        """Name of the study, for example `ask-1B-20B`."""
        return f"ask-{exact_count(self.params)}-{exact_count(self.tokens)}"

    @property
    def tokens_per_parameter(self) -> float:
        """Training tokens per parameter, the same for the asked size and for the budgets."""
        return self.tokens / self.params

    def study(self, budgets: Sequence[int]) -> StudyConfig:
        """The study of these budgets; raises `ConfigError` if the question allows none."""
        return study_of(self.keys(budgets))

    def keys(self, budgets: Sequence[int]) -> dict[str, object]:
        """Key -> value of the study's file, without defaults."""
        keys: dict[str, object] = {
            "study": self.name,
            "objective": {
                **objective_keys(self.data, self.tokenizer),
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
    gpu: str | None, count: Count,
) -> Question:  # fmt: skip
    """Returns the question of a command line; `tokens` is 20 per parameter by default.

    Raises:
        ConfigError: when a size is no positive number, `hours` is not above 0, or `count`
            counts no parameters.
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
        tokens=count_of("--tokens", tokens) if tokens else TOKENS * size,
        data=data,
        tokenizer=tokenizer,
        hours=hours,
        gpus=gpus if gpu is None else max(gpus, 1),
        gpu="" if gpu is None else gpu_named(gpu).name,
        count=count,
    )
