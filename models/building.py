"""Builds the model of a shape: the built-in transformer, or the one of a user's own function."""

import torch

from fathom.models.network.encoder_decoder import EncoderDecoder
from fathom.models.network.transformer import Transformer
from fathom.models.own_model import OwnModel
from fathom.models.recipe import OwnRecipe, Recipe
from fathom.models.shape import Shape

SearchedModel = Transformer | OwnModel
"""A model whose shape is searched."""


def class_of(shape: Shape) -> type[Transformer]:
    """The class of the built-in model of a shape."""
    return EncoderDecoder if shape.encoder_depth else Transformer


def build_model(shape: Shape, recipe: Recipe, *, seed: int, device: torch.device) -> SearchedModel:
    """The model of `shape` on `device`, with the initial weights of `seed`.

    The weights are the same on every device. `recipe` is the built-in model's parametrization, or a
    user's function.
    """
    if isinstance(recipe, OwnRecipe):
        return OwnModel(shape, recipe, seed=seed, device=device)
    # The meta device would spare what PyTorch draws, but it imports the compiler: 2 s a worker.
    with device:
        model = class_of(shape)(shape, recipe)
    model.initialise(torch.Generator().manual_seed(seed))
    return model
