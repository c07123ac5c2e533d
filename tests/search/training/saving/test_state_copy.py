"""Copies of a state in buffers that are kept."""

from typing import Any

import torch

from fathom.search.training.saving.state_copy import StateCopy


def state(value: float, rows: int = 3) -> dict[str, Any]:
    return {
        "weights": {"a": torch.full((rows, 2), value)},
        "sums": [torch.tensor(value, dtype=torch.float64)],
        "step": value,
    }


def test_a_copy_has_what_the_state_had_though_the_state_changes_afterwards() -> None:
    training, copies = state(1.0), StateCopy()
    copy = copies.take(training)
    training["weights"]["a"] += 1
    training["sums"][0] += 1
    copies.wait()
    assert copy["weights"]["a"].tolist() == [[1.0, 1.0]] * 3
    assert (copy["sums"][0].item(), copy["sums"][0].dtype) == (1.0, torch.float64)
    assert copy["step"] == 1.0


def test_the_next_copy_takes_the_same_memory() -> None:
    copies = StateCopy()
    first, second = copies.take(state(1.0)), copies.take(state(2.0))
    assert second["weights"]["a"].data_ptr() == first["weights"]["a"].data_ptr()
    assert second["weights"]["a"].tolist() == [[2.0, 2.0]] * 3


def test_a_tensor_of_another_size_or_type_takes_memory_of_its_own() -> None:
    copies = StateCopy()
    copies.take(state(1.0))
    assert copies.take(state(2.0, rows=5))["weights"]["a"].tolist() == [[2.0, 2.0]] * 5
    whole = {"weights": {"a": torch.ones(5, 2, dtype=torch.int64)}}
    assert copies.take(whole)["weights"]["a"].dtype is torch.int64


def test_memory_of_what_a_state_no_longer_has_is_not_kept() -> None:
    copies = StateCopy()
    copies.take(state(1.0))
    copies.take({"step": 2})
    assert copies._buffers == {}


def test_a_copy_has_each_number_at_its_place_whatever_the_strides() -> None:
    turned = torch.arange(6.0).view(2, 3).t()
    assert torch.equal(StateCopy().take([turned])[0], turned)
