"""An evaluation by several real processes against that of one: gloo on the CPU instead of NCCL."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from benchmarks.gpu.processes import in_processes
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.next_token import NextToken
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.ranks.spread_evaluation import evaluate_on_ranks
from fathom.search.training.state import Training
from tests.support.objectives import prepared
from tests.support.reversal import Reversal
from tests.support.toy import CPU, Successor
from tests.support.training import PARAMETRIZATION
from tests.support.training import SHORT_PLAN as PLAN

pytestmark = pytest.mark.drill

SIZE = 3
WINDOWS, CONTEXT, AT_ONCE = 8, 6, 16
"""Held-out rows of the text, which three processes can't share evenly, their tokens, and the tokens
that a process evaluates at once: two of these rows."""


def text() -> NextToken:
    ids = np.arange(400) ** 2 % 11
    return NextToken(
        train=ids.astype(np.uint8), validation=ids.astype(np.uint8), vocab_size=11, context=CONTEXT,
        eval_windows=WINDOWS, tokens_per_byte=1.0,
    ).to(CPU)  # fmt: skip


def moods(folder: Path, pooling: str) -> Any:
    rows = [f"{mood}\t{word} {n}" for n in range(10) for mood, word in {"a": "x", "b": "y"}.items()]
    (folder / "x.tsv").write_text("\n".join(rows))
    (folder / "y.tsv").write_text("a\tx\nb\tx 3\nb\ty 4 5\na\ty\n")
    table = {"data": str(folder / "x.tsv"), "dev": str(folder / "y.tsv"), "label": "first"}
    return prepared("classification", **table, context=4, pooling=pooling)


def objectives(folder: Path) -> dict[str, Objective]:
    folder.mkdir(exist_ok=True)
    return {
        "text": text(),
        "sources": Reversal(),
        "mean of tokens": moods(folder, "mean"),
        "last token": moods(folder, "last"),
        "asks for logits": Successor(),
    }


def shape_for(objective: Objective) -> Shape:
    stacks = isinstance(objective, Reversal)
    return Shape(
        depth=2, d_model=16, d_ff=32, n_heads=2, head_dim=8, vocab_size=objective.vocab_size,
        context=objective.context, encoder_depth=int(stacks),
    )  # fmt: skip


class Found(NamedTuple):
    """The metrics of an evaluation, and how many rows of each batch this process computed."""

    metrics: dict[str, float]
    rows: list[int]


def evaluated(objective: Objective, ranks: Ranks, *, shards: bool = False) -> Found:
    plan = replace(PLAN, shards=shards)
    training = Training(
        shape_for(objective), PARAMETRIZATION, plan, seed=3, device=CPU, ranks=ranks
    )
    model, rows = training.transformer, list[int]()
    model.register_forward_pre_hook(lambda _, given: rows.append(len(given[0])))
    model.eval()
    with pytest.MonkeyPatch.context() as patch, training.whole():
        patch.setattr("fathom.objectives.keys.EVAL_CHUNK_TOKENS", AT_ONCE)
        metrics = evaluate_on_ranks(ranks, model, lambda: objective.evaluate(model))
    assert model.over_rows is None
    return Found(metrics, rows)


def _process(rank: int, folder: Path) -> None:
    found = {
        (name, shards): tuple(evaluated(objective, Ranks(rank, SIZE), shards=shards))
        for name, objective in objectives(folder / str(rank)).items()
        for shards in (False, True)
    }
    torch.save(found, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def by_rank(tmp_path_factory: pytest.TempPathFactory) -> list[dict[tuple[str, bool], Found]]:
    folder = tmp_path_factory.mktemp("evaluated")
    in_processes(_process, folder, size=SIZE, meeting=folder / "meeting")
    loaded = (torch.load(folder / f"{rank}.pt") for rank in range(SIZE))
    return [{case: Found(*found) for case, found in cases.items()} for cases in loaded]


@pytest.mark.parametrize("shards", [False, True])
def test_every_process_has_the_metrics_of_one(
    by_rank: list[dict[tuple[str, bool], Found]], tmp_path: Path, shards: bool
) -> None:
    for name, objective in objectives(tmp_path).items():
        alone = evaluated(objective, SINGLE_PROCESS)
        for found in by_rank:
            assert found[name, shards].metrics == pytest.approx(alone.metrics, rel=1e-5), name


def test_each_process_computes_as_many_rows_at_once_as_one_would_alone(
    by_rank: list[dict[tuple[str, bool], Found]], tmp_path: Path
) -> None:
    alone = evaluated(text(), SINGLE_PROCESS)
    assert alone.rows == [2, 2, 2, 2]
    for found in by_rank:
        assert found["text", False].rows == found["text", True].rows == [2, 1]
    for name, objective in objectives(tmp_path).items():
        rows = evaluated(objective, SINGLE_PROCESS).rows
        if name == "asks for logits":  # as a user's own objective may: nothing is known of it
            assert [found[name, False].rows for found in by_rank] == [rows, [], []]
        else:
            shared = [sum(found[name, False].rows) for found in by_rank]
            assert max(shared) == min(shared) < sum(rows), name
