"""Sizes of rows that name a type of model, beside what its configuration has."""

from typing import Any

import pytest

from fathom.search.tables.analysis import analyse_table
from fathom.search.tables.grouped.named_types import with_sizes
from fathom.search.tables.open_table import rows_of
from fathom.search.tables.question import TableQuestion

SMOLLM: dict[str, Any] = {
    "hidden_size": 576, "num_hidden_layers": 30, "intermediate_size": 1536,
    "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
    "tie_word_embeddings": True,
}  # fmt: skip
"""SmolLM2-135M, as published."""


def sizes(**row: Any) -> list[object]:
    table = with_sizes(rows_of("t", [row]), {})
    [(_, values)] = table.rows
    return [dict(zip(table.names, values, strict=True)).get(n) for n in ("params_total",
            "params_non_embedding")]  # fmt: skip


@pytest.mark.parametrize("name", ["model_type", "config.model_type", "architecture", "arch"])
@pytest.mark.parametrize("kind", ["llama", "LlamaForCausalLM", "LLaMA"])
def test_a_row_that_names_its_type_has_the_published_size(name: str, kind: str) -> None:
    texts = {key: str(value) for key, value in SMOLLM.items()}

    assert sizes(**{name: kind}, **SMOLLM) == [134_515_008, 106_203_456]
    assert sizes(**{name: kind}, **texts) == [134_515_008, 106_203_456]
    assert sizes(**{name: kind}, **SMOLLM | {"num_hidden_layers": "30.0"})[0] == 134_515_008


def test_other_rows_and_tables_with_sizes_stay_as_they_are() -> None:
    assert sizes(architecture="mine", **SMOLLM) == [None, None]
    assert sizes(model_type="llama", n_params=5, **SMOLLM) == [None, None]
    assert sizes(**SMOLLM) == [None, None]
    rows = [{"model_type": kind, **SMOLLM} for kind in ("llama", "llama-like")]
    [_, (_, other)] = with_sizes(rows_of("t", rows), {}).rows
    assert other[-2:] == [None, None]


def test_runs_are_compared_at_the_sizes_that_their_rows_name() -> None:
    rows = [
        {"model_type": "llama", **SMOLLM, "num_hidden_layers": depth, "eval_loss": 3 + depth / 100}
        for depth in (28, 30, 32)
    ]

    analysis = analyse_table(with_sizes(rows_of("t", rows), {}), {}, TableQuestion())

    assert "params_total" in analysis.columns
    assert analysis.optima[0].budget == 135_000_000
