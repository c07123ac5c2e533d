"""Micro-batches from the memory of a device."""

from dataclasses import replace

import pytest

from fathom.models.memory import Execution, step_memory
from fathom.models.shape import Shape
from fathom.search.study.hardware import fit, memory
from fathom.search.study.hardware.disk import checkpoint_bytes
from fathom.search.study.hardware.fit import fit_step, usable_memory
from fathom.search.study.hardware.memory import BESIDE_TRIALS, WORKER
from fathom.search.study.hardware.step_fit import StepFit
from fathom.search.study.keys.groups import ResourcesConfig

HOW = Execution()
SHAPE = Shape(
    depth=12, d_model=768, d_ff=3072, n_heads=12, head_dim=64, vocab_size=32_768, context=1024
)


def need(sequences: int, pieces: int, *, recomputes: bool = False) -> int:
    how = Execution(recomputes=recomputes)
    step = step_memory(SHAPE, sequences=sequences, pieces=pieces, how=how).total
    return step + checkpoint_bytes(SHAPE)


def test_a_batch_is_cut_into_the_fewest_equal_pieces_that_fit() -> None:
    assert fit_step(SHAPE, 12, need(12, 1), HOW) == StepFit(1, False, need(12, 1), True)
    assert fit_step(SHAPE, 12, need(12, 1) - 1, HOW).micro_batches == 2
    assert fit_step(SHAPE, 12, need(3, 4), HOW) == StepFit(4, False, need(3, 4), True)
    assert fit_step(SHAPE, 7, need(4, 2), HOW).micro_batches == 7, "the pieces are equal"


def test_the_pieces_of_an_immense_batch_are_found() -> None:
    found = fit_step(SHAPE, 2**40, need(2**10, 2**30), HOW)
    assert (found.micro_batches, found.enough) == (2**30, True)


def test_on_a_gpu_the_state_is_copied_to_the_memory_of_the_machine() -> None:
    on_cpu, on_gpu = (fit_step(SHAPE, 1, 1e12, Execution(gpu=gpu)).memory for gpu in (False, True))
    step = step_memory(SHAPE, sequences=1, how=Execution(gpu=True)).total
    assert on_gpu == step
    assert on_cpu > step


def test_layers_are_computed_again_where_a_sequence_does_not_fit() -> None:
    found = fit_step(SHAPE, 4, need(1, 4) - 1, HOW)
    assert found.recomputes
    assert found.enough
    lacking = fit_step(SHAPE, 4, need(1, 4, recomputes=True) - 1, HOW)
    assert not lacking.enough
    assert "a sequence takes" in lacking.text(3e9)


def test_a_model_is_parted_where_a_whole_one_does_not_fit_each_gpu() -> None:
    how = Execution(gpu=True, ranks=4)
    whole = step_memory(SHAPE, sequences=1, pieces=4, how=replace(how, recomputes=True)).total
    assert not fit_step(SHAPE, 4, whole, how).shards
    found = fit_step(SHAPE, 4, whole - 1, how)
    assert found.shards
    assert found.enough
    assert "each GPU with its part of the model" in found.text(whole)
    assert not fit_step(SHAPE, 4, whole - 1, how, may_shard=False).enough
    assert not fit_step(SHAPE, 4, whole - 1, Execution(gpu=True)).shards, (
        "one process has no other to share with"
    )


def test_a_fit_is_told_in_a_line() -> None:
    text = "a trial takes up to 2.5 GB of 3 GB, in 4 micro-batches a step"
    assert StepFit(4, False, 2_500_000_000, True).text(3e9) == text
    assert StepFit(1, False, 25_000_000, True).text(float("inf")) == "a trial takes up to 25 MB"


def test_a_trial_gets_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    has = [8e9]
    monkeypatch.setattr(fit, "machine_memory", lambda: has[0])
    monkeypatch.setattr(memory, "machine_memory", lambda: has[0])
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert usable_memory(ResourcesConfig(gpus_per_trial=0), None) == pytest.approx(0.7 * 2e9)
    alone = ResourcesConfig(gpus_per_trial=0, max_concurrent_trials=1)
    assert usable_memory(alone, None) == pytest.approx(0.7 * 8e9)
    quarter = ResourcesConfig(gpus_per_trial=0.25)
    assert usable_memory(quarter, 80e9) == pytest.approx(0.85 * 20e9)
    assert usable_memory(quarter, 16e9) == 3e9, "its process takes a gigabyte beside its tensors"
    assert usable_memory(ResourcesConfig(gpus_per_trial=0.01), 16e9) == 0
    has[0] = BESIDE_TRIALS + 2 * WORKER + 4e8
    assert usable_memory(ResourcesConfig(gpus_per_trial=0), None) == pytest.approx(1e8 / 3), (
        "three workers fit, and share what is left"
    )
