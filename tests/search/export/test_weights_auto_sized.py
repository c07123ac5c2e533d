"""Export of auto-sized trainings: the smallest model of equal layers, with the same logits."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from benchmarks.answers.trained.exports import trained
from fathom.models.network.transformer import Transformer
from fathom.models.options import Normalization, Positions
from fathom.models.parametrization import Scheme
from fathom.models.sizing.auto_sizing import families
from fathom.models.sizing.group_penalty import SizedPart
from fathom.search.export.best import BestShape
from fathom.search.export.formats import model_of, write_folder
from fathom.search.export.weights import write_weights
from fathom.search.study.file.errors import ConfigError
from fathom.search.training.saving.compact_weights import write_compact
from fathom.search.training.saving.weights_folder import COMPACT, SIZES
from tests.support.trained import best_of, some_tokens

SIZED = {"auto_sizing": {"strength": 0.1}}


@torch.no_grad()
def pruned(best: BestShape, folder: Path) -> Transformer:
    """A model as an auto-sized training leaves it: the second layer is gone, and so are a head and
    some neurons of the others."""
    model = trained(best, folder)
    for layer, family in enumerate(families(model, SizedPart.BRANCHES)):
        for _, view in family.weights:
            view[:] *= layer not in (2, 3)
    for part, dead in ((SizedPart.HEADS, slice(0, 1)), (SizedPart.NEURONS, slice(5, 19))):
        for family in families(model, part):
            for _, view in family.weights:
                view[dead] = 0.0
    write_compact(model, folder)
    return model


@pytest.mark.parametrize("scheme", Scheme)
def test_transformers_loads_the_smallest_model_of_equal_layers(
    scheme: Scheme, tmp_path: Path
) -> None:
    best = best_of(scheme=scheme, train=SIZED, norm=Normalization.RMS, gated=True)
    ours, folder = pruned(best, tmp_path / "trained"), tmp_path / "trained"
    model = model_of(best, "hf", weights=folder)
    write_folder(model, "hf", tmp_path / "out", partial(write_weights, model, "hf", folder))
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert (model.shape.depth, model.shape.n_heads, model.shape.d_ff) == (2, 2, 26)
    assert sum(weight.numel() for weight in theirs.parameters()) == model.shape.params_total
    tokens = some_tokens(best.shape)
    logits: Tensor = theirs(tokens).logits
    torch.testing.assert_close(logits, ours(tokens), rtol=1e-4, atol=2e-4)


def test_a_format_that_lacks_the_smaller_shape_says_so_in_a_line(tmp_path: Path) -> None:
    """GPT-2's heads fill its width, so that it has none to spare."""
    best = best_of(train=SIZED, norm=Normalization.LAYER, biases=True, positions=Positions.LEARNED)
    pruned(best, tmp_path)
    with pytest.raises(ConfigError, match="can't express") as error:
        model_of(best, "nanogpt", weights=tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [SIZES, COMPACT])
def test_a_training_that_has_not_ended_is_refused(name: str, tmp_path: Path) -> None:
    best = best_of(train=SIZED, norm=Normalization.RMS, gated=True)
    pruned(best, tmp_path / "trained")
    (tmp_path / "trained" / name).unlink()
    with pytest.raises(ConfigError, match="run the training to its end"):
        write_weights(
            model_of(best, "hf", weights=tmp_path / "trained"),
            *("hf", tmp_path / "trained", tmp_path),
        )
