"""A task that notes each step that any worker trains, for searches in processes of their own."""

import os
import time
from dataclasses import dataclass
from typing import Self

from fathom.objectives.contract import Batch
from fathom.search.training.layer_metrics import SEED as DIAGNOSTICS_SEED
from tests.support.toy import Successor


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Successor):
    """The task `Successor`, of which a step takes a while and a file has a byte for each step."""

    steps: str
    seconds: float

    @classmethod
    def prepare(cls, *, context: int, steps: str, seconds: float = 0.0) -> Self:
        """The task with the path of that file, and the least time of a step."""
        return cls(context=context, steps=steps, seconds=seconds)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """The batch of a step, which is noted."""
        if seed != DIAGNOSTICS_SEED:
            time.sleep(self.seconds)
            note = os.open(self.steps, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(note, b".")
            os.close(note)
        return Successor.batch(self, seed=seed, step=step, batch_size=batch_size)
