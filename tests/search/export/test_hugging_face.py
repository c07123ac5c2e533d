"""Exported folders as transformers loads them: the same count, the same loss, the same tokens."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from benchmarks.answers.trained.exports import trained
from fathom.models.layers.experts import Experts
from fathom.models.layers.state_space import StateSpace
from fathom.models.network.blocks import NORM_EPS
from fathom.models.network.transformer import ROTARY_BASE
from fathom.models.options import Activation, Normalization, Positions
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.objectives.text.corpus import read_corpus
from fathom.objectives.text.encode import encode, tokenizer_file
from fathom.objectives.text.tokenizer import count_ids
from fathom.search.export import model as exported
from fathom.search.export.best import BestShape
from fathom.search.export.formats import model_of, write_folder
from fathom.search.export.hugging_face import ARCHITECTURES, config_of
from fathom.search.export.weights import write_weights
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import study_of
from tests.support.trained import LANGUAGE, best_of, some_tokens

RMS, LAYER = Normalization.RMS, Normalization.LAYER
NONE, LEARNED, RELU2 = Positions.NONE, Positions.LEARNED, Activation.RELU2
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Llama", {"norm": RMS, "gated": True}),
    ("Llama", {"norm": RMS, "gated": True, "biases": True, "tied": False}),
    ("Llama", {"norm": RMS, "gated": True, "queries_per_key": 3}),
    ("Qwen3", {"norm": RMS, "gated": True, "qk_norm": True}),
    ("Qwen3", {"norm": RMS, "gated": True, "qk_norm": True, "queries_per_key": 3}),
    ("Apertus", {"norm": RMS, "qk_norm": True}),
    ("Apertus", {"norm": RMS, "qk_norm": True, "queries_per_key": 3, "activation": RELU2}),
    ("SmolLM3", {"norm": RMS, "gated": True, "positions": NONE}),
    ("Arcee", {"norm": RMS}),
    ("Arcee", {"norm": RMS, "queries_per_key": 3}),
    ("Arcee", {"norm": RMS, "activation": RELU2}),
    ("Arcee", {"norm": RMS, "biases": True, "tied": False}),
    ("Starcoder2", {"norm": LAYER, "biases": True}),
    ("Starcoder2", {"norm": LAYER, "biases": True, "tied": False, "activation": RELU2}),
    ("Mixtral", {"norm": RMS, "gated": True, "experts": Experts(number=4, top_k=2)}),
    ("GraniteMoeHybrid", {"norm": RMS, "gated": True, "state_space": StateSpace(pattern="MA")}),
    (
        "GraniteMoeHybrid",
        {
            "norm": RMS,
            "gated": True,
            "tied": False,
            "positions": NONE,
            "queries_per_key": 3,
            "state_space": StateSpace(pattern="AM", state=5, expand=3, conv=2),
        },
    ),
    ("GPT2", {"norm": LAYER, "biases": True, "positions": LEARNED}),
    ("GPT2", {"norm": LAYER, "biases": True, "positions": LEARNED, "tied": False}),
    ("GPT2", {"norm": LAYER, "biases": True, "positions": LEARNED, "activation": RELU2}),
)
"""The architecture that is to be found, and the options of its shape."""
CENTRED = (
    ("Llama", {"norm": LAYER, "gated": True, "tied": False}),
    ("SmolLM3", {"norm": LAYER, "gated": True, "tied": False, "positions": NONE}),
    ("Arcee", {"norm": LAYER, "tied": False}),
    ("Qwen3", {"norm": LAYER, "gated": True, "tied": False, "qk_norm": True}),
)
"""Layer norm without biases, of which weights can make RMSNorm."""


def loaded(best: BestShape, out: Path, weights: Path | None = None) -> Any:
    """The model as a user loads the exported folder."""
    model = model_of(best, "hf", weights=weights)
    if weights is None:
        write_folder(model, "hf", out, None)
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(out))
    write_folder(model, "hf", out, partial(write_weights, model, "hf", weights))
    return AutoModelForCausalLM.from_pretrained(out)


def count(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("scheme", [Scheme.STANDARD, Scheme.MUP, Scheme.COMPLETEP])
@pytest.mark.parametrize(("architecture", "options"), CASES + CENTRED)
@torch.no_grad()
def test_weights_have_the_same_loss_in_transformers(
    architecture: str, options: dict[str, Any], scheme: Scheme, tmp_path: Path
) -> None:
    best = best_of(scheme=scheme, **options)
    ours = trained(best, tmp_path / "trained")

    theirs = loaded(best, tmp_path / "out", tmp_path / "trained")

    assert type(theirs).__name__.startswith(architecture)
    assert [type(theirs).__name__] == theirs.config.architectures
    assert count(theirs) == best.shape.params_total
    tokens = some_tokens(best.shape)
    logits: Tensor = theirs(tokens).logits
    torch.testing.assert_close(logits, ours(tokens), rtol=1e-4, atol=2e-4)
    losses = [
        F.cross_entropy(found.flatten(0, 1), tokens.flatten()) for found in (logits, ours(tokens))
    ]
    assert float(losses[0]) == pytest.approx(float(losses[1]), abs=1e-5)
    assert theirs(input_ids=tokens, labels=tokens).loss.isfinite()


SHARED = Experts(number=4, top_k=1, shared=2, every=2)
LACKING = (
    (Experts(number=4, top_k=2, balance="bias"), "`model.experts.balance: bias`"),
    (Experts(number=4, top_k=2, every=2), "`model.experts.every: 2` (it has 1)"),
    (Experts(number=4, top_k=1), "`model.experts.top_k: 1` (its weights sum to 1)"),
)


@pytest.mark.parametrize("experts", [SHARED, replace(SHARED, top_k=2, every=1)], ids=str)
@torch.no_grad()
def test_shared_experts_have_a_gate_there_that_is_one_for_all(
    experts: Experts, tmp_path: Path
) -> None:
    best = best_of(norm=RMS, gated=True, experts=experts)
    ours, tokens = trained(best, tmp_path / "trained"), some_tokens(best.shape)
    theirs = loaded(best, tmp_path / "out", tmp_path / "trained")
    assert type(theirs).__name__ == "Qwen2MoeForCausalLM"
    gates = best.shape.expert_layers * best.shape.d_model
    assert count(theirs) == best.shape.params_total + gates
    torch.testing.assert_close(theirs(tokens).logits, ours(tokens), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(("experts", "text"), LACKING)
def test_experts_that_no_model_there_has_are_refused(experts: Experts, text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        model_of(best_of(norm=RMS, gated=True, experts=experts), "hf")
    assert text in str(refusal.value)
    with pytest.raises(ConfigError, match="experts"):
        model_of(best_of(norm=RMS, gated=True, experts=experts), "litgpt")


@pytest.mark.parametrize("tied", [False, True])
@torch.no_grad()
def test_state_spaces_without_feed_forward_are_mamba_2(tied: bool, tmp_path: Path) -> None:
    best = best_of(norm=RMS, d_ff=0, tied=tied, state_space=StateSpace(pattern="M", state=6))
    ours, tokens = trained(best, tmp_path / "trained"), some_tokens(best.shape)
    theirs = loaded(best, tmp_path / "out", tmp_path / "trained")
    assert type(theirs).__name__ == "Mamba2ForCausalLM"
    assert count(theirs) == best.shape.params_total
    torch.testing.assert_close(theirs(tokens).logits, ours(tokens), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"state_space": StateSpace()}, "`model.gated: false` (it has true)"),
        ({"d_ff": 0, "state_space": StateSpace(pattern="MA")}, "pattern: MA` (it has M)"),
        ({"gated": True, "state_space": StateSpace(), "n_heads": 2}, "its heads make up d_model"),
    ],
)
def test_hybrids_that_no_model_there_has_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        model_of(best_of(norm=RMS, **options), "hf")
    assert text in str(refusal.value)
    with pytest.raises(ConfigError, match="state_space"):
        model_of(best_of(norm=RMS, **options), "litgpt")


def shapes(options: dict[str, Any]) -> Iterator[Shape]:
    """A spread of sizes, heads that do not fill d_model among them where GPT-2 is not meant."""
    square = options.get("positions") is LEARNED or "state_space" in options
    grouped = "queries_per_key" in options
    for depth, d_model, d_ff, n_heads, head_dim in (
        (1, 8, 3, 1, 8),
        (5, 32, 100, 4, 8),
        (2, 48, 192, 2, 24 if square else 10),
        (4, 30, 77, 3, 10 if square else 2),
    ):
        groups = {"queries_per_key": n_heads} if grouped else {}
        yield Shape(
            depth=depth, d_model=d_model, d_ff=d_ff, n_heads=n_heads, head_dim=head_dim,
            vocab_size=97, context=24, **options | groups,
        )  # fmt: skip


@pytest.mark.parametrize(("architecture", "options"), CASES)
def test_a_spread_of_shapes_has_the_count_that_was_reported(
    architecture: str, options: dict[str, Any]
) -> None:
    for shape in shapes(options):
        found = model_of(replace(best_of(), shape=shape), "hf")
        assert found.architecture.name == architecture
        config = exported_config(found)
        with torch.device("meta"):
            assert count(AutoModelForCausalLM.from_config(config)) == shape.params_total


def exported_config(model: exported.ExportedModel) -> Any:
    values = config_of(model)
    return AutoConfig.for_model(values.pop("model_type"), **values)


def test_heads_whose_number_does_not_divide_d_model_go_to_another_architecture() -> None:
    best = best_of(norm=RMS, gated=True, d_model=18, n_heads=4, head_dim=6)
    found = model_of(best, "hf")
    assert found.architecture.name == "SmolLM3"
    assert count(AutoModelForCausalLM.from_config(exported_config(found))) == (
        best.shape.params_total
    )


def test_every_architecture_is_tried_here() -> None:
    one_stack = {architecture.name for architecture in ARCHITECTURES if not architecture.encoder}
    assert {name for name, _ in CASES} | {"Qwen2Moe", "Mamba2"} == one_stack


def test_the_exports_know_the_constants_of_the_models() -> None:
    assert (exported.NORM_EPS, exported.ROTARY_BASE) == (NORM_EPS, ROTARY_BASE)


TEXT = "Grüße, a\tbyte: <0x41>\n\n  two  spaces; 1234 "


@pytest.mark.parametrize("tokenizer", ["bytes", "chars", "bpe:270"])
def test_text_has_the_same_ids_in_transformers(tokenizer: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(TEXT * 40, encoding="utf-8")
    objective = LANGUAGE | {"corpus": str(corpus), "tokenizer": tokenizer}
    vocab_size = count_ids(corpus=str(corpus), tokenizer=tokenizer, validation_fraction=0.1)
    best = best_of(norm=RMS, objective=objective, vocab_size=vocab_size)
    loaded(best, tmp_path / "out")

    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")

    text = read_corpus(str(corpus), validation_fraction=0.1)
    ours = encode(text, tokenizer=tokenizer)
    assert theirs(text.validation.decode()).input_ids == ours.validation.tolist()
    assert theirs.decode(ours.validation.tolist()) == text.validation.decode()
    assert len(theirs) == vocab_size


def test_a_character_that_was_not_there_has_the_last_id(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("abc\n" * 40, encoding="utf-8")
    text = tokenizer_file(corpus=str(corpus), tokenizer="chars", validation_fraction=0.1)
    assert Tokenizer.from_str(text).encode("aéb").ids == [1, 4, 2]


def test_ids_that_are_not_text_are_described_as_such(tmp_path: Path) -> None:
    best = best_of(norm=RMS)
    hop = study_of({"study": "demo", "objective": {"name": "hop"}, "budgets": [8_000]})
    loaded(replace(best, config=hop), tmp_path / "out")

    assert {path.name for path in (tmp_path / "out").iterdir()} == {"config.json", "README.md"}
    assert "objective `hop`, not of a text" in (tmp_path / "out" / "README.md").read_text()
