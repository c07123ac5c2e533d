"""A callback by which Hugging Face's Trainer trains the trials of a study.

The study's command is a script that trains with it: docs/your_trainer.md.
"""

import json
import signal
from typing import Any

from transformers import TrainerCallback


class FathomCallback(TrainerCallback):
    """Prints each evaluation, and saves and ends the training at a SIGTERM."""

    def __init__(self) -> None:
        self.ending = False
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "ending", True))

    def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        loss = others["metrics"]["eval_loss"]
        print(json.dumps({"step": state.global_step, "loss": loss}), flush=True)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        control.should_save |= self.ending
        control.should_training_stop |= self.ending
