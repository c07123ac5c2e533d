"""Operations of a model that answers, against those of training on whole sequences."""

from dataclasses import replace
from typing import Any

import pytest

from fathom.models.inference import prefill_flops
from tests.support.models import SMALL


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"queries_per_key": 2, "gated": True},
        {"looped": True},
        {"embedding_rank": 3},
        {"d_ff": 0},
    ],
)
def test_a_prefill_takes_the_operations_of_a_forward_pass_with_one_row_of_logits(
    options: dict[str, Any],
) -> None:
    shape = replace(SMALL, **options)
    whole = shape.context * shape.forward_flops_per_token
    without_logits = whole - 2 * (shape.context - 1) * shape.vocabulary_matrices
    assert prefill_flops(shape, sequences=3, prompt=shape.context) == 3 * without_logits
