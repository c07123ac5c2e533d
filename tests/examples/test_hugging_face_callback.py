"""examples/hugging_face_callback.py: evaluations are printed, and a SIGTERM saves and ends."""

import json
import os
import signal
from types import SimpleNamespace

import pytest

from examples.hugging_face_callback import FathomCallback


def test_it_prints_evaluations_and_ends_at_a_sigterm(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        callback = FathomCallback()
        state = SimpleNamespace(global_step=50)
        control = SimpleNamespace(should_save=False, should_training_stop=False)
        callback.on_evaluate(None, state, control, metrics={"eval_loss": 3.5})
        assert json.loads(capsys.readouterr().out) == {"step": 50, "loss": 3.5}
        callback.on_step_end(None, state, control)
        assert not control.should_training_stop
        os.kill(os.getpid(), signal.SIGTERM)
        callback.on_step_end(None, state, control)
        assert control.should_save
        assert control.should_training_stop
    finally:
        signal.signal(signal.SIGTERM, before)
