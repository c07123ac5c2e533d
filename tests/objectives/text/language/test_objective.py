import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.objectives.arrays import spread
from fathom.objectives.text.language.objective import Language
from tests.support.objectives import CPU, prepared, refused, uniform

CONTEXT = 8


def language(content: bytes | Path, **settings: object) -> Language:
    """The objective on a text, or on a file."""
    place = content
    if isinstance(content, bytes):
        place = Path("text.txt").absolute()
        place.write_bytes(content)
    given = {"corpus": str(place), "context": CONTEXT, "eval_tokens": 80}
    task: Language = prepared("language", **given | settings)
    return task


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def counting() -> Language:
    """Text in which every byte follows the one before: 0 is left out, as text has none."""
    return language(bytes(range(1, 128)) * 100, eval_tokens=100)


def of_ids(train: NDArray[Any], validation: NDArray[Any], **changed: Any) -> Language:
    given = {"vocab_size": 256, "context": CONTEXT, "eval_windows": 1, "tokens_per_byte": 1.0}
    return Language(train=train, validation=validation, **given | changed)


def successor(inputs: Tensor) -> Tensor:
    """Certain of the byte after the input."""
    return 100.0 * torch.nn.functional.one_hot(inputs % 127 + 1, 256)


def test_targets_are_the_inputs_one_token_later(counting: Language) -> None:
    batch = counting.batch(seed=0, step=0, batch_size=50)
    assert torch.equal(batch.targets, batch.inputs % 127 + 1)
    assert torch.equal(batch.targets[:, :-1], batch.inputs[:, 1:])
    assert counting.to(CPU).train is counting.train, "what is placed can be placed again"


def test_an_epoch_trains_on_each_token_of_the_training_split_once() -> None:
    task = language(bytes(range(1, 121)), context=5, eval_tokens=5, validation_fraction=1 / 6)
    epoch = 100 // 5 - 1
    first, second = (task.batch(seed=1, step=step, batch_size=epoch) for step in range(2))
    for batch in (first, second):
        targets = batch.targets.flatten().tolist()
        assert len(set(targets)) == len(targets) == epoch * 5
        assert set(targets) <= set(range(2, 101))
    assert not torch.equal(first.inputs, second.inputs)


def test_the_batches_of_an_epoch_do_not_depend_on_their_size(counting: Language) -> None:
    whole = counting.batch(seed=3, step=0, batch_size=24).inputs
    parts = [counting.batch(seed=3, step=step, batch_size=8).inputs for step in range(3)]
    assert torch.equal(torch.cat(parts), whole)


def test_a_right_guess_costs_nothing_and_a_uniform_one_eight_bits(counting: Language) -> None:
    assert counting.evaluate(successor)["loss"] == pytest.approx(0, abs=1e-6)
    chance = counting.evaluate(uniform(counting))
    assert chance["loss"] == pytest.approx(math.log(256), rel=1e-6)
    assert chance["bits_per_byte"] == pytest.approx(8, rel=1e-6)


def test_bits_per_byte_count_the_bytes_that_tokens_stand_for() -> None:
    task = language("äöü".encode() * 1000, tokenizer="chars")
    assert task.tokens_per_byte == 0.5
    measured = task.evaluate(uniform(task))
    assert measured["bits_per_byte"] == pytest.approx(2 * 0.5, rel=1e-6)


def test_the_evaluation_is_the_exact_mean_over_the_tokens_it_uses() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 256, 20_001).astype(np.uint8)
    task = of_ids(tokens, tokens, eval_windows=2500).to(CPU)
    table = torch.from_numpy(rng.normal(size=(256, 256)).astype(np.float32))
    nats = -torch.log_softmax(table.double(), dim=1).numpy()
    expected = nats[tokens[:-1], tokens[1:]].mean()
    assert task.evaluate(lambda inputs: table[inputs])["loss"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("eval_tokens", "windows"), [(CONTEXT, 1), (100, 12), (1000, 125), (10**9, 158)]
)
def test_an_evaluation_uses_windows_spread_evenly(eval_tokens: int, windows: int) -> None:
    # A tenth: 1272 bytes, 158 windows and 8 bytes.
    task = language(b"abcdefg\n" * 1590, eval_tokens=eval_tokens)
    starts = spread(len(task.validation) - CONTEXT, task.eval_windows)
    assert len(task.validation) == 1272
    assert len(starts) == task.eval_windows == windows
    assert starts[0] == 0
    if windows > 1:
        assert starts[-1] == len(task.validation) - CONTEXT - 1
        gaps = set(np.diff(starts).tolist())
        assert min(gaps) >= CONTEXT
        assert max(gaps) - min(gaps) <= 1


def test_the_loss_has_a_gradient_and_is_computed_in_float32(counting: Language) -> None:
    model = torch.nn.Embedding(256, 256, dtype=torch.bfloat16)
    loss = counting.loss(model, counting.batch(seed=0, step=0, batch_size=4))
    assert loss.dtype == torch.float32
    loss.backward()  # type: ignore[no-untyped-call]
    assert model.weight.grad is not None


def test_training_windows_hold_no_validation_token() -> None:
    task = language(b"t" * 9_000 + b"v" * 1_000)
    batch = task.batch(seed=0, step=0, batch_size=5000)
    assert set(batch.targets.flatten().tolist()) == {ord("t")}
    assert isinstance(task.validation, Tensor)
    assert set(task.validation.tolist()) == {ord("v")}


def test_prepared_data_travels_out_of_band_and_is_placed_without_a_copy() -> None:
    tokens = np.arange(1000, dtype=np.int16)
    task = of_ids(tokens, tokens[::-1].copy(), vocab_size=1000)
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(task, protocol=5, buffer_callback=buffers.append)
    assert len(head) < 1000
    assert len(buffers) == 2
    arrived = pickle.loads(head, buffers=[memoryview(bytes(buffer)) for buffer in buffers])
    assert not arrived.train.flags.writeable
    placed = arrived.to(CPU)  # Warnings are errors, torch's about read-only arrays among them.
    assert placed.train.data_ptr() == arrived.train.ctypes.data
    assert placed.batch(seed=0, step=0, batch_size=2).inputs.dtype == torch.int64


@pytest.mark.parametrize("vocabulary", [256, 30_000, 100_000])
def test_ids_of_every_size_arrive_unchanged(vocabulary: int) -> None:
    dtype = np.uint8 if vocabulary == 256 else np.int16 if vocabulary < 2**15 else np.int32
    tokens = np.linspace(0, vocabulary - 1, 500).astype(dtype)
    task = of_ids(tokens, tokens, vocab_size=vocabulary, context=499).to(CPU)
    batch = task.batch(seed=0, step=0, batch_size=1)
    assert batch.inputs[0].tolist() == tokens[:-1].tolist()
    assert batch.targets[0].tolist() == tokens[1:].tolist()


def test_each_split_must_hold_a_window_and_its_corpus_and_tokenizer_must_exist() -> None:
    task = language(b"x" * 18, validation_fraction=0.5)
    assert task.batch(seed=0, step=0, batch_size=3).inputs.shape == (3, CONTEXT)
    assert task.eval_windows == 1
    for length, settings, words in (
        (80, {"validation_fraction": 0.1}, "72 training and 8 validation tokens, context=8"),
        (16, {"validation_fraction": 0.5}, "8 training and 8 validation tokens, context=8"),
        (100, {"corpus": "missing.txt"}, "missing.txt"),
        (100, {"tokenizer": "bpe:256"}, "bpe:256"),
    ):
        with refused(words):
            language(b"x" * length, **settings)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_draws_the_same_batch_twice_and_evaluates_as_the_cpu_does(counting: Language) -> None:
    placed = counting.to(torch.device("cuda"))
    first, again = (placed.batch(seed=1, step=2, batch_size=4) for _ in range(2))
    assert torch.equal(first.inputs, again.inputs)
    assert first.inputs.is_cuda
    assert torch.equal(first.targets, first.inputs % 127 + 1)
    table = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
    on_gpu = placed.evaluate(lambda inputs: table.cuda()[inputs])["loss"]
    on_cpu = counting.evaluate(lambda inputs: table[inputs])["loss"]
    assert on_gpu == pytest.approx(on_cpu, rel=1e-5)
