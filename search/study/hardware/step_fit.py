"""The fit of a training step into the memory of a device, as a value."""

import math
from dataclasses import dataclass

from fathom.search.formatting import format_bytes


@dataclass(frozen=True, slots=True)
class StepFit:
    """Micro-batches, recomputing and sharding with which a training step fits into memory."""

    micro_batches: int
    """Equal parts of the batch that go through the model one after another."""
    recomputes: bool
    """True if layers are computed again in the backward pass."""
    memory: int
    """Bytes of the training at its peak."""
    enough: bool
    """False if not even one sequence fits."""
    shards: bool = False
    """True if each GPU of a trial keeps only its part of the model."""

    def text(self, memory: float) -> str:
        """The memory that the step needs, out of `memory` bytes, in words."""
        has = "" if memory == math.inf else f" of {format_bytes(memory)}"
        if not self.enough:
            return f"a sequence takes {format_bytes(self.memory)}{has}"
        count = self.micro_batches
        pieces = "" if count == 1 else f", in {count} micro-batches a step"
        again = ", with layers computed again" if self.recomputes else ""
        parts = ", each GPU with its part of the model" if self.shards else ""
        return f"a trial takes up to {format_bytes(self.memory)}{has}{pieces}{again}{parts}"
