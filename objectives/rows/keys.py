"""Types of keys, and methods, that the objectives on rows share."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from fathom.objectives.keys import BATCH_WIDTHS, ObjectiveConfig

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


class RowsConfig(ObjectiveConfig):
    """Keys that the objectives on rows share, with `context` and `eval_examples`."""

    batch_widths: ClassVar[int] = BATCH_WIDTHS

    if TYPE_CHECKING:  # a field, whose place among the keys differs

        @property
        def eval_examples(self) -> int:
            """Most rows in an evaluation."""

    @property
    def evaluation_tokens(self) -> int:
        """Tokens of an evaluation, padding included."""
        return self.eval_examples * self.context

    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys with as many rows in an evaluation as `eval_tokens` tokens hold, at least one;
        rows keep their length."""
        fewer = min(self.eval_examples, max(1, eval_tokens // self.context))
        return self.model_copy(update={"eval_examples": fewer})
