"""Types of keys that the objectives on rows (`transduction`, `classification`) share."""

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated

from pydantic import Field

FilePath = Annotated[str, Field(min_length=1, max_length=4096)]
SplitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
SPLITS = "names of letters, digits, `_`, `.` or `-`, each with the path of its rows"


def padding_note(lengths: Sequence[int], context: int) -> str:
    """A line on rows of these lengths, if a context of half as many tokens would hold them all."""
    longest = max(lengths)
    if 2 * longest > context:
        return ""
    padding = 1 - fmean(lengths) / context
    return (
        f"`objective.context` is {context}, but the longest row has {longest} tokens, so "
        f"{padding:.0%} of the horizon is padding; `objective.context: {longest}` holds every row"
    )


def fewer_examples(eval_examples: int, *, context: int, eval_tokens: int) -> int:
    """The number of examples of `context` tokens in an evaluation of at most `eval_tokens`."""
    return min(eval_examples, max(1, eval_tokens // context))
