"""Shapes as if they had been searched and trained, without either."""

from typing import Any

import torch
from torch import Tensor

from fathom.models.options import Normalization
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.search.export.best import BestShape
from fathom.search.study.file.study_file import study_of

PARAMETRIZATION = {"base_width": 8, "base_depth": 1, "base_head_dim": 2, "init_std": 0.3}
"""Far from every shape here, so that each scale shows."""

LANGUAGE = {"name": "language", "context": 16, "eval_tokens": 64}


def best_of(
    *, scheme: Scheme = Scheme.COMPLETEP, objective: dict[str, Any] | None = None,
    train: dict[str, Any] | None = None, **sizes: Any,
) -> BestShape:  # fmt: skip
    """A shape of the study's one budget; `sizes` are fields of `Shape`. Its norm is layer norm."""
    plain: dict[str, Any] = {
        "depth": 3, "d_model": 24, "d_ff": 40, "n_heads": 3, "head_dim": 8, "vocab_size": 256,
        "context": 16, "norm": Normalization.LAYER,
    }  # fmt: skip
    shape = Shape(**(plain | sizes))
    model = {"parametrization": PARAMETRIZATION | {"scheme": scheme.value}}
    keys = {"study": "demo", "budgets": [8_000], "train": train or {}, "model": model}
    config = study_of(keys | {"objective": objective or LANGUAGE})
    return BestShape(config, 8_000, shape)


def some_tokens(shape: Shape) -> Tensor:
    """Three full contexts."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(shape.vocab_size, (3, shape.context), generator=generator)
