"""The keys of `objective: external`, the data of a training command of the user's own."""

from typing import ClassVar, Literal, Self

from fathom.objectives.keys import ObjectiveConfig, Positive


class ExternalConfig(ObjectiveConfig):
    """Data that only `train.command` reads: Fathom knows their vocabulary and context, to count
    parameters and steps."""

    loss_unit: ClassVar[str] = "nats per token"
    bidirectional: ClassVar[bool] = True
    of_command: ClassVar[bool] = True
    name: Literal["external"]
    vocabulary: Positive
    """Number of token ids of the command's model."""
    context: Positive
    """Tokens of a training sequence."""

    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.vocabulary

    def for_probe(self, *, context: int, eval_tokens: int) -> Self:
        """The keys unchanged: there are no data to shorten."""
        return self
