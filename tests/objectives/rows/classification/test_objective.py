"""A class for each text: what is pooled, what is asked, and how it is measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fathom.objectives.contract import IGNORED
from fathom.objectives.rows.classification.objective import Classification
from fathom.objectives.token_ids import PAD
from tests.support.objectives import assert_requested_rows, prepared, uniform

MOODS = {"good": "fine", "bad": "poor"}


def mood_task(folder: Path, **settings: Any) -> Classification:
    rows = [f"{mood}\t{MOODS[mood]} {n}" for n in range(10) for mood in MOODS]
    rows += ["good\tso very fine", "bad\tso very poor"]
    (folder / "x.tsv").write_text("\n".join(rows))
    (folder / "y.tsv").write_text("good\tfine\ngood\tpoor\n")
    table = {"data": str(folder / "x.tsv"), "label": "first", "context": 4}
    task: Classification = prepared("classification", **table | settings)
    return task


def ids_of(task: Classification, rows: int = 20) -> tuple[list[list[int]], list[list[int]]]:
    inputs, targets, _ = task.train.batch(np.arange(rows), 4)
    return inputs.tolist(), targets.tolist()


def test_the_class_is_predicted_at_the_last_token_of_the_text(tmp_path: Path) -> None:
    task = mood_task(tmp_path)

    for inputs, targets in zip(*ids_of(task), strict=True):
        length = sum(token != PAD for token in inputs)
        asked = [place for place, target in enumerate(targets) if target != IGNORED]
        assert asked == [length - 1]
        assert targets[length - 1] in (task.first_class, task.first_class + 1)
        assert PAD not in inputs[:length]
    assert task.vocab_size == task.first_class + 2
    assert task.classes == ("bad", "good")


def test_pooling_is_the_mean_or_last_token_whatever_the_padding(tmp_path: Path) -> None:
    mean, last = (mood_task(tmp_path, pooling=pooling) for pooling in ("mean", "last"))
    table = nn.Embedding(mean.vocab_size, mean.vocab_size)
    batch = mean.train.batch(np.array([3]), 4)
    length = int((batch.inputs != PAD).sum())

    logits_TC = table(batch.inputs)[0, :, mean.first_class :]
    answer = batch.targets.max() - mean.first_class
    for task, pooled_C in ((mean, logits_TC[:length].mean(0)), (last, logits_TC[length - 1])):
        expected = nn.functional.cross_entropy(pooled_C, answer)
        assert task.loss(table, batch).item() == pytest.approx(expected.item(), rel=1e-5)
        rows = np.array([0, 1, 2])
        narrow, wide = (task.loss(table, task.train.batch(rows, width)) for width in (2, 4))
        assert narrow.item() == pytest.approx(wide.item(), rel=1e-5)


def test_predictions_are_classes_only(tmp_path: Path) -> None:
    task = mood_task(tmp_path)

    def sure_of_a_word(inputs: Tensor) -> Tensor:
        logits = torch.zeros(*inputs.shape, task.vocab_size)
        logits[..., : task.first_class] = 50.0
        return logits

    assert task.evaluate(sure_of_a_word)["loss"] == pytest.approx(task.chance_loss)
    assert task.chance_loss == pytest.approx(np.log(2))


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_model_that_knows_the_words_is_accurate(tmp_path: Path, pooling: str) -> None:
    task = mood_task(tmp_path, pooling=pooling, test={"hard": str(tmp_path / "y.tsv")})
    # A text's first word says its class; it is the last one too where it is alone.
    poor, fine = ({row[0] for row in rows} for rows in by_class(task))
    [poor_id], [fine_id] = poor - fine - {0}, fine - poor - {0}

    def reader(inputs: Tensor) -> Tensor:
        found = torch.stack(((inputs == poor_id).any(1), (inputs == fine_id).any(1)), 1)
        logits = torch.zeros(*inputs.shape, task.vocab_size)
        logits[..., task.first_class :] = 20.0 * found[:, None, :]
        return logits

    measured = task.final_metrics(reader)
    assert measured == {"accuracy/dev": 1.0, "accuracy/hard": 0.5}
    assert task.evaluate(reader)["accuracy/dev"] == 1.0


def by_class(task: Classification) -> tuple[list[list[int]], list[list[int]]]:
    inputs, targets = ids_of(task, len(task.train.rows))
    so = {row[0] for row in inputs if row[2] != PAD}
    found = zip(inputs, targets, strict=True)
    rows = [(row, max(asked) - task.first_class) for row, asked in found if row[0] not in so]
    return [row for row, label in rows if label == 0], [row for row, label in rows if label == 1]


def test_an_evaluation_uses_the_requested_texts_and_the_final_one_all(tmp_path: Path) -> None:
    task = mood_task(tmp_path, eval_examples=2, validation_fraction=0.5)
    assert len(task.dev.rows) > 10
    assert_requested_rows(task, 2, len(task.dev.rows))


def test_expressions_are_drawn_if_no_data_are_named() -> None:
    task = prepared("classification", context=30, listops={"examples": 300, "max_depth": 4})

    assert task.classes == tuple("0123456789")
    assert task.vocab_size == 2 + 15 + 10
    assert len(task.train.rows) == 270
    assert task.batch(seed=0, step=0, batch_size=64).inputs.shape[1] <= 30


def test_published_expressions_are_measured_as_a_further_split(mirror: Path) -> None:
    task = prepared(
        "classification", context=100, listops={"examples": 300}, test={"d8": "listops_d8"}
    )

    metrics = task.final_metrics(uniform(task))

    assert len(task.further["d8"].rows) == 10_000
    assert 0.08 < metrics["accuracy/d8"] < 0.14, "the share of one class of ten"
