"""An evaluation by all ranks of a trial: the leader runs the evaluation, and each rank computes
some rows of every batch. Torch only."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from fathom.models.building import SearchedModel
from fathom.models.network.transformer import Transformer
from fathom.objectives.contract import Batch, Model
from fathom.search.training.ranks.data_parallel import Ranks

Value = TypeVar("Value")
OfRows = Callable[[Model, Batch], Tensor]
"""Function from a batch to a tensor whose first dimension has the same number of entries for each
row. It is sent to other processes, so it must be a function of a module, or a `partial` of such a
function."""


class _Work(NamedTuple):
    """A batch that the leader hands out, in CPU memory."""

    compute: OfRows
    batch: Batch


def evaluate_on_ranks(ranks: Ranks, model: SearchedModel, evaluate: Callable[[], Value]) -> Value:
    """Returns on every rank the value that `evaluate` returns on the leader; all ranks must call
    this.

    While it runs, `model.over_rows` spreads batches over the ranks. The leader alone evaluates a
    user's own model.
    """
    if ranks.size == 1 or not isinstance(model, Transformer):
        return ranks.broadcast(evaluate)
    if not ranks.is_leader:
        with torch.no_grad():
            _help(ranks, model)
        return ranks.broadcast(evaluate)
    model.over_rows = _OnAllRanks(ranks, model)
    try:
        value = evaluate()
    finally:
        model.over_rows = None
    ranks.broadcast(lambda: None)  # ends the help
    return ranks.broadcast(lambda: value)


class _OnAllRanks:
    """The `over_rows` of the leader's model: hands out a batch, and gathers the rows that the ranks
    compute."""

    def __init__(self, ranks: Ranks, model: Transformer) -> None:
        self._ranks, self._model = ranks, model
        self.processes = ranks.size
        """Number of processes that share the rows."""

    def __call__(self, compute: OfRows, batch: Batch) -> Tensor:
        """Returns what `compute` would return for the whole batch."""
        self._ranks.broadcast(lambda: _Work(compute, batch.mapped(Tensor.cpu)))
        found = _gathered(self._ranks, self._model, compute, batch)
        computed = self.processes * _rows_each(self._ranks, batch)
        return found[: len(found) * len(batch.inputs) // computed]


def _help(ranks: Ranks, model: Transformer) -> None:
    """Computes rows of each batch that the leader hands out, until the leader has no more."""
    device = model.embedding.weight.device
    while (work := ranks.broadcast(_nothing)) is not None:
        _gathered(ranks, model, work.compute, work.batch.mapped(lambda part: part.to(device)))


def _nothing() -> _Work | None:
    """Returns no work: the argument of a broadcast on ranks that only receive."""
    return None


def _gathered(ranks: Ranks, model: Transformer, compute: OfRows, batch: Batch) -> Tensor:
    """The results of all ranks, in the order of the rows. If the rows can't be shared evenly, the
    results of the first rows are repeated at the end."""
    each = _rows_each(ranks, batch)
    rows = torch.arange(ranks.rank * each, (ranks.rank + 1) * each) % len(batch.inputs)
    rows = rows.to(batch.inputs.device)
    own = compute(model, batch.mapped(lambda part: part[rows])).detach().contiguous()
    parts = [torch.empty_like(own) for _ in range(ranks.size)]
    torch.distributed.all_gather(parts, own)
    return torch.cat(parts)


def _rows_each(ranks: Ranks, batch: Batch) -> int:
    """Number of rows that each rank computes."""
    return -(-len(batch.inputs) // ranks.size)
