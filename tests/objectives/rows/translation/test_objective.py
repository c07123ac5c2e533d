"""Translation with the encoder-decoder that trials train: batches, loss, decoding and scores."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.models.building import build_model
from fathom.models.shape import Shape
from fathom.objectives.contract import IGNORED
from fathom.objectives.rows.translation.decoding import greedy
from fathom.objectives.rows.translation.objective import Translation
from fathom.objectives.rows.translation.scores import scores
from fathom.objectives.rows.translation.vocabulary import END, START
from fathom.objectives.token_ids import PAD
from tests.support.objectives import CPU, keys_of, prepared
from tests.support.training import PARAMETRIZATION

RULES = {"pairs": 400, "nesting": 1, "nouns": 6, "verbs": 4}
CONTEXT = 24


@pytest.fixture(scope="module")
def task() -> Translation:
    found: Translation = prepared(
        "translation", generated=RULES, context=CONTEXT, beam={"width": 3}, translated=20
    )
    return found


@pytest.fixture(scope="module")
def model(task: Translation) -> Any:
    shape = Shape(
        depth=3, encoder_depth=1, d_model=32, n_heads=2, head_dim=16, d_ff=64,
        vocab_size=task.vocab_size, context=task.context,
    )  # fmt: skip
    built = build_model(shape, PARAMETRIZATION, seed=0, device=CPU)
    optimizer = torch.optim.AdamW(built.parameters(), lr=3e-3)
    for step in range(60):
        optimizer.zero_grad()
        task.loss(built, task.batch(seed=0, step=step, batch_size=16)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return built.eval()


def test_a_batch_is_of_sources_with_an_end_and_targets_after_a_start(task: Translation) -> None:
    batch = task.batch(seed=0, step=0, batch_size=4)
    inputs, targets, sources = batch

    assert sources is not None
    assert len(inputs) * inputs.shape[1] <= 4 * CONTEXT
    for source, row, asked in zip(sources.tolist(), inputs.tolist(), targets.tolist(), strict=True):
        assert source.count(END) == 1
        assert row[0] == START
        written = [token for token in asked if token != IGNORED]
        assert written[-1] == END
        assert row[1 : len(written)] == written[:-1]
        words = task.tokens.source.text(source).split()
        assert len(task.tokens.target.text(written).split()) == len(words)


def test_the_last_batch_of_an_epoch_is_filled_with_rows_that_ask_nothing(task: Translation) -> None:
    steps = task.buckets.steps(64)
    asked = [task.batch(seed=0, step=step, batch_size=64).targets for step in range(steps)]

    rows = sum(int((targets != IGNORED).any(1).sum()) for targets in asked)
    assert rows == len(task.train)
    assert sum(map(len, asked)) > rows


def test_a_row_of_padding_changes_no_loss(task: Translation, model: Any) -> None:
    batch = task.train.batch(torch.arange(5).numpy(), CONTEXT, count=5)
    filled = task.train.batch(torch.arange(5).numpy(), CONTEXT, count=8)

    with torch.no_grad():
        alone, among = task.loss(model, batch), task.loss(model, filled)
    assert float(alone) == pytest.approx(float(among))


def test_the_held_out_loss_is_the_mean_over_target_tokens(task: Translation, model: Any) -> None:
    nats, count = 0.0, 0
    for row in range(len(task.dev)):
        width = int(task.dev.lengths[row])
        inputs, targets, sources = task.dev.batch(torch.tensor([row]).numpy(), width, count=1)
        with torch.no_grad():
            logits = model(inputs, sources).log_softmax(-1)[0]
        asked = targets[0][targets[0] != IGNORED]
        nats -= float(logits[torch.arange(len(asked)), asked].sum())
        count += len(asked)

    assert task.evaluate(model)["loss"] == pytest.approx(nats / count, rel=1e-5)


def test_label_smoothing_changes_no_held_out_loss(task: Translation, model: Any) -> None:
    before = task.evaluate(model)
    batch = task.batch(seed=0, step=0, batch_size=8)
    plain = task.loss(model, batch).item()
    model.regularise(dropout=0.0, label_smoothing=0.3)
    try:
        assert task.evaluate(model) == before
        model.train()
        assert task.loss(model, batch).item() > plain
    finally:
        model.regularise(dropout=0.0, label_smoothing=0.0)
        model.eval()


def uncached(model: Any, sources: Tensor) -> Tensor:
    """Greedy decoding that reads all tokens again for each new one."""
    inputs = torch.full((len(sources), 1), START)
    for _ in range(CONTEXT):
        newest = model(inputs, sources)[:, -1:].argmax(-1)
        inputs = torch.cat((inputs, newest), 1)
    ended = (inputs == END).cumsum(1) - (inputs == END).long() > 0
    return inputs.masked_fill(ended, PAD)[:, 1:]


def test_cached_decoding_writes_what_uncached_does(task: Translation, model: Any) -> None:
    sources = task.test.sources.padded(torch.arange(20).numpy(), CONTEXT)
    with torch.no_grad():
        whole = uncached(model, sources)

    found = greedy(model, sources, longest=CONTEXT)

    assert torch.equal(found, whole[:, : found.shape[1]])
    assert not bool(whole[:, found.shape[1] :].any())


def test_metrics_are_bleu_and_chrf_of_all_translations(task: Translation, model: Any) -> None:
    metrics = task.final_metrics(model)
    assert {*metrics} == {"bleu/beam", "chrf/beam", "bleu/greedy", "chrf/greedy"}
    assert all(0 <= value <= 100 for value in metrics.values())
    assert metrics["chrf/beam"] > 5

    files = {name: content.splitlines() for name, content in task.files(model).items()}
    assert files["test.reference"] == [*task.references]
    assert len(files["test.output"]) == len(task.test)
    expected = scores(files["test.output"], files["test.reference"])
    assert files["test.scores"] == [
        f"{name} {score.value:.2f} {score.signature}" for name, score in expected.items()
    ]


@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
@pytest.mark.parametrize("tokenizer", ["words", "bpe:262"])
def test_the_keys_know_both_vocabularies(vocabulary: str, tokenizer: str) -> None:
    settings: dict[str, Any] = {"generated": RULES, "context": 64}
    settings |= {"vocabulary": vocabulary, "tokenizer": tokenizer}
    keys, task = keys_of("translation", **settings), prepared("translation", **settings)

    assert keys.vocab_size() == task.vocab_size
    assert keys.source_vocab_size() == task.source_vocab_size
    assert (task.source_vocab_size == 0) == (vocabulary == "joint")
