"""Compiling is for long trials on a GPU, and changes no loss.

The tests that compile stand here together: the first of a process imports the compiler.
"""

import sysconfig
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.callback import callback_handler as compilations

from fathom.models.network.transformer import Transformer
from fathom.models.shape import Shape
from fathom.objectives import keys
from fathom.objectives.contract import IGNORED, Batch, Model
from fathom.objectives.token_loss import masked_loss, mean_loss
from fathom.search.study.file.study_file import parse
from fathom.search.study.planning.budget import expand_budgets, steps_of_a_start
from fathom.search.training import compile_policy
from fathom.search.training.compile_policy import (
    launches_may_dominate,
    pays,
    possible,
)
from tests.support import training as small
from tests.support.training import (
    PARAMETRIZATION,
    PLAN,
    SHORT_PLAN,
    lack_memory,
    losses_of,
    new_training,
    run_to_end,
)

SHAPE = Shape(depth=12, d_model=256, d_ff=1024, n_heads=4, head_dim=64, vocab_size=256, context=256)

compiles = [
    pytest.mark.skipif(not possible(), reason="no C compiler to compile with"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # PyTorch's own, in compiling
]
COMPILED = pytest.param(True, marks=compiles)
# Traced and derived as for any compiler; making kernels takes long.
traced = partial(torch.compile, backend="aot_eager")


@pytest.fixture(autouse=True)
def _nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has compiled for no shape yet."""
    torch.compiler.reset()
    monkeypatch.setattr(compile_policy, "_kept", set())


def test_a_long_trial_on_a_gpu_pays_and_a_short_one_does_not() -> None:
    assert pays(SHAPE, steps=1_000_000, tokens_per_step=8192, device_type="cuda")
    assert not pays(SHAPE, steps=10, tokens_per_step=8192, device_type="cuda")
    assert not pays(SHAPE, steps=1_000_000, tokens_per_step=8192, device_type="cpu")


@pytest.mark.parametrize("tokens_per_step", [1024, 2**20])
def test_once_it_pays_more_steps_pay_as_well(tokens_per_step: int) -> None:
    answers = [
        pays(SHAPE, steps=10**power, tokens_per_step=tokens_per_step, device_type="cuda")
        for power in range(8)
    ]
    assert answers == sorted(answers)


@pytest.mark.parametrize(("depth", "width", "tokens"), [(5, 128, 8192), (64, 112, 32768)])
def test_the_launches_of_narrow_layers_may_take_most_of_a_step_on_a_gpu(
    depth: int, width: int, tokens: int
) -> None:
    shape = replace(SHAPE, depth=depth, d_model=width, d_ff=4 * width, n_heads=1, head_dim=width)
    assert launches_may_dominate(shape, tokens_per_step=tokens, device_type="cuda")
    assert not launches_may_dominate(shape, tokens_per_step=tokens, device_type="cpu")
    assert not launches_may_dominate(shape, tokens_per_step=1000 * tokens, device_type="cuda")


def test_the_launches_of_wide_layers_do_not() -> None:
    shape = replace(SHAPE, d_model=832, n_heads=13, d_ff=4 * 832)
    assert not launches_may_dominate(shape, tokens_per_step=32768, device_type="cuda")


def test_of_recorded_steps_compiling_saves_no_launches() -> None:
    narrow = replace(SHAPE, d_model=64, d_ff=256, n_heads=1)
    as_before, recorded = (
        pays(narrow, steps=12_000, tokens_per_step=1024, device_type="cuda", recorded=recorded)
        for recorded in (False, True)
    )
    assert as_before
    assert not recorded
    assert pays(narrow, steps=10**7, tokens_per_step=1024, device_type="cuda", recorded=True)


def test_compiling_takes_no_longer_for_a_deeper_model_whose_blocks_are_compiled() -> None:
    """So what pays for a shallow model pays for a deep one, whose steps take longer."""
    for steps in (100, 1000, 10_000):
        shallow, deep = (
            pays(
                replace(SHAPE, depth=depth), steps=steps, tokens_per_step=2**16, device_type="cuda"
            )
            for depth in (14, 48)
        )
        assert deep >= shallow


def test_a_trial_that_may_pause_is_compiled_where_what_it_trains_at_a_time_pays() -> None:
    config = parse("study: s\nobjective: {name: language, context: 64}\nbudgets: [1M]\n")
    (budget,) = expand_budgets(config)
    steps, at_a_time = budget.steps, steps_of_a_start(config, budget)
    assert 0.1 * steps < at_a_time < 0.3 * steps
    without = parse("study: s\nobjective: language\nbudgets: [1M]\nstopping: {enabled: false}\n")
    assert steps_of_a_start(without, budget) == steps


@compiles[1]
@pytest.mark.drill
def test_every_kind_of_batch_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", traced)
    training = new_training(replace(SHORT_PLAN, compiled=True))
    context, counts = training.transformer.shape.context, []
    begun = list[object]()
    compilations.register_start_callback(begun.append)
    try:
        for sequences in (4, 2, 1):
            for tokens in range(4, context + 1):
                inputs = torch.zeros(sequences, tokens, dtype=torch.int64)
                before = len(begun)
                training.transformer(inputs).sum().backward()
                counts.append(len(begun) - before)
    finally:
        compilations.remove_start_callback(begun.append)
    assert len(counts) > 8, "PyTorch's own limit"
    assert min(counts) > 0


@compiles[1]
def test_another_seed_of_a_shape_is_not_compiled_again_until_a_fifth_shape_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def compiler(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    def compilings(shape: Shape, seed: int) -> int:
        before = len(graphs)
        losses_of(new_training(replace(SHORT_PLAN, compiled=True), shape=shape, seed=seed))
        return len(graphs) - before

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compiler))
    shapes = [replace(new_training().model.shape, d_ff=32 + 8 * more) for more in range(5)]
    assert min(compilings(shape, seed=0) for shape in shapes[:4]) > 0
    assert [compilings(shape, seed=1) for shape in shapes[:4]] == [0] * 4
    assert compilings(shapes[4], seed=0) > 0
    assert compilings(shapes[0], seed=2) > 0, "it was forgotten for the fifth"


@compiles[1]
@pytest.mark.parametrize(
    "compiler", [traced, pytest.param(torch.compile, marks=[compiles[0], pytest.mark.drill])]
)
def test_compiled_the_losses_are_the_same_to_noise_and_no_step_is_timed_with_compiling(
    compiler: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", compiler)
    plan = replace(PLAN, compiled=True, evaluation_steps=(1, 2, 40))
    eager = run_to_end(new_training(), replace(plan, compiled=False))
    torch.compiler.reset()
    training = new_training(plan)
    compiling_in_training: list[bool] = []

    def note(_: object) -> None:
        compiling_in_training.append(training.compile_seconds > 0 and torch.is_grad_enabled())

    compilations.register_start_callback(note)
    try:
        compiled = run_to_end(training, plan)
    finally:
        compilations.remove_start_callback(note)
    for measured, expected in zip(compiled, eager, strict=True):
        assert measured.loss == pytest.approx(expected.loss, rel=1e-3)
        assert measured.train_loss == pytest.approx(expected.train_loss, rel=1e-3)
    assert compiling_in_training
    assert not any(compiling_in_training)


@compiles[0]
@compiles[1]
def test_a_compiled_step_that_runs_out_of_memory_is_begun_again_with_half_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "compile", traced)
    expected = losses_of(new_training(SHORT_PLAN))
    training = new_training(replace(SHORT_PLAN, compiled=True))
    lack_memory(training, "embedding.weight", 5)
    lack_memory(training, "blocks.0.attention.into.weight", 8)
    assert losses_of(training) == pytest.approx(expected, rel=1e-4)
    assert training.micro_batches == 4


@pytest.mark.parametrize("compiled", [False, COMPILED])
@pytest.mark.parametrize("loss_of", [mean_loss, masked_loss])
def test_a_large_vocabulary_takes_chunks_to_the_same_loss(
    loss_of: Callable[[Model, Batch], Tensor], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = torch.randint(9, (4, 7), generator=torch.Generator().manual_seed(0))
    targets = inputs if loss_of is mean_loss else inputs.where(inputs % 3 > 0, IGNORED)
    found = []
    for at_once in (keys.LOGITS_AT_ONCE, 9 * 11):
        monkeypatch.setattr(keys, "LOGITS_AT_ONCE", at_once)
        model = Transformer(replace(small.SHAPE, vocab_size=9, context=7), PARAMETRIZATION)
        model.initialise(torch.Generator().manual_seed(0))
        torch.compiler.reset()
        step = traced(loss_of, dynamic=False) if compiled else loss_of
        loss = step(model, Batch(inputs, targets))
        loss.backward()
        found.append((loss, *(weight.grad for weight in model.parameters())))
    torch.testing.assert_close(found[0], found[1])


def test_a_compiler_that_fails_leaves_a_trial_that_may_be_eager_with_the_same_losses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    eager = losses_of(new_training(SHORT_PLAN))
    refuse(monkeypatch)
    plan = replace(SHORT_PLAN, compiled=True, may_be_eager=True)
    training = new_training(plan)

    with pytest.warns(UserWarning, match=r"not compiled, as the compiler failed: .*no Python\.h"):
        assert losses_of(training) == eager
    assert not training.plan.compiled


def test_a_compiler_that_fails_ends_a_trial_that_must_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(monkeypatch)
    with pytest.raises(Exception, match=r"no Python\.h"):
        losses_of(new_training(replace(SHORT_PLAN, compiled=True)))


def refuse(patch: pytest.MonkeyPatch) -> None:
    """Has the compiler fail as it does where something is missing that it calls."""

    def backend(*_: object) -> None:
        raise RuntimeError("fatal error: no Python.h\ncompilation terminated.")

    patch.setattr(torch, "compile", partial(torch.compile, backend=backend))


@pytest.mark.parametrize("missing", ["compiler", "header"])
def test_without_a_compiler_or_headers_compiling_is_not_possible(
    missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CC", raising=False)
    for name, folder in (("compiler", tmp_path / "bin"), ("header", tmp_path / "include")):
        folder.mkdir()
        if name != missing:
            (folder / ("cc" if name == "compiler" else "Python.h")).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "include"))
    assert not possible()
    (tmp_path / "bin" / "cc").touch(mode=0o755)
    (tmp_path / "include" / "Python.h").touch()
    assert possible()
