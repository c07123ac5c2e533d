"""Encoder-decoder models as transformers loads them: the same logits from the same weights."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from fathom.models.building import build_model
from fathom.models.options import Activation, Normalization, Positions, Residual
from fathom.models.parametrization import Scheme
from fathom.objectives.token_ids import PAD
from fathom.search.export.best import BestShape
from fathom.search.export.formats import model_of, write_folder
from fathom.search.export.weights import write_weights
from fathom.search.study.file.errors import ConfigError
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.weights_folder import WEIGHTS, Note, claim
from tests.support.trained import best_of

BART: dict[str, Any] = {"residual": Residual.POST, "biases": True, "positions": Positions.LEARNED}
T5: dict[str, Any] = {"norm": Normalization.RMS, "positions": Positions.NONE}
CASES: tuple[tuple[str, Scheme, dict[str, Any]], ...] = (
    ("Bart", Scheme.STANDARD, BART),
    ("Bart", Scheme.STANDARD, BART | {"activation": Activation.RELU2, "encoder_depth": 1}),
    ("T5", Scheme.COMPLETEP, T5),
    ("T5", Scheme.COMPLETEP, T5 | {"gated": True, "n_heads": 2}),
    ("T5", Scheme.MUP, T5 | {"gated": True}),
    ("T5", Scheme.STANDARD, T5 | {"activation": Activation.RELU2}),
)


def shape_of(scheme: Scheme, options: dict[str, Any]) -> BestShape:
    return best_of(scheme=scheme, **({"depth": 5, "encoder_depth": 2, "vocab_size": 40} | options))


def drawn(seed: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 40, (3, length), generator=generator)


@pytest.mark.parametrize(("name", "scheme", "options"), CASES)
@torch.no_grad()
def test_weights_give_the_same_logits_in_transformers(
    name: str, scheme: Scheme, options: dict[str, Any], tmp_path: Path
) -> None:
    best = shape_of(scheme, options)
    recipe = best.config.model.parametrization.build()
    ours = build_model(best.shape, recipe, seed=0, device=torch.device("cpu")).eval()
    folder = tmp_path / "trained"
    claim(folder, Note(best.budget, best.shape, best.config))
    checkpoint.save(ours.state_dict(), folder / WEIGHTS)
    model = model_of(best, "hf", weights=folder)
    write_folder(model, "hf", tmp_path / "out", partial(write_weights, model, "hf", folder))
    theirs: Any = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()

    assert [type(theirs).__name__] == theirs.config.architectures
    assert type(theirs).__name__.startswith(name)
    inputs, sources = drawn(1, 9), F.pad(drawn(2, 7), (0, 4))
    logits = theirs(
        input_ids=sources, attention_mask=(sources != PAD).long(), decoder_input_ids=inputs
    ).logits
    mine = ours(inputs, sources)
    assert (logits - mine).abs().max() < 1e-5 * max(1.0, float(mine.abs().max()))


@pytest.mark.parametrize(("name", "scheme", "options"), CASES)
def test_a_shape_without_weights_has_its_sizes(
    name: str, scheme: Scheme, options: dict[str, Any], tmp_path: Path
) -> None:
    best = shape_of(scheme, options)
    write_folder(model_of(best, "hf"), "hf", tmp_path / "out", None)
    theirs = AutoModelForSeq2SeqLM.from_config(AutoConfig.from_pretrained(tmp_path / "out"))
    shape = best.shape
    # Rows of positions that no token has; biases of attention by distance.
    beside = 2 * 2 * shape.d_model if name == "Bart" else 2 * 32 * shape.n_heads
    assert sum(weight.numel() for weight in theirs.parameters()) == shape.params_total + beside


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"positions: rotary"),
        (T5 | {"tied": False}, "tied: false"),
        (T5 | {"source_vocab_size": 30}, "an embedding of the encoder's own"),
        (BART | {"residual": Residual.ADMIN_CLOSED}, "residual: admin_closed"),
    ],
)
def test_what_transformers_lacks_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        model_of(shape_of(Scheme.STANDARD, options), "hf")
    with pytest.raises(ConfigError, match=r"space\.split"):
        model_of(shape_of(Scheme.STANDARD, options), "nanogpt")


def test_a_scale_of_logits_behind_a_post_norm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't scale the logits after a post-norm"):
        model_of(shape_of(Scheme.MUP, BART), "hf", weights=tmp_path)
