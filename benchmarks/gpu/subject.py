"""The trainings that the stages measure: shapes, plans, and a text to train on."""

import importlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.finding import Setup
from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape
from fathom.objectives.contract import Objective
from fathom.objectives.rows.translation.keys import GeneratedConfig, TranslationConfig
from fathom.objectives.text.language.keys import LanguageConfig
from fathom.objectives.text.language.objective import Language
from fathom.objectives.tokens.stream import Segment, TokenFiles
from fathom.search.records import TrialSpec
from fathom.search.study.file.study_file import study_of
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.space.near_shapes import nearest_shape
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.training.assignment import standalone_spec
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.state import Training, TrainPlan

PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=64, base_depth=2, base_head_dim=32, init_std=0.04
)
PLAN = TrainPlan(
    steps=24,
    batch_size=8,
    learning_rate=2e-3,
    warmup_steps=4,
    cooldown_steps=4,
    weight_decay=0.1,
    betas=(0.9, 0.95),
    eps=1e-12,
    grad_clip=1.0,
    evaluation_steps=(12, 24),
    bfloat16=False,
)
"""Two evaluations, in float32, eager, a batch in one piece."""

Sizes = tuple[tuple[int, int], ...]
"""Depth and width of several shapes."""
SMALL: Sizes = ((1, 64), (2, 48), (4, 16))
LARGE: Sizes = ((2, 640), (8, 320), (24, 192))
"""About 10M parameters each. Of the small ones the deepest is too narrow, and clearly worse."""


def shape_of(depth: int, width: int, *, vocabulary: int = 256, context: int = 64) -> Shape:
    """A shape with heads of 64 features, or of half its width."""
    head_dim = 64 if width % 64 == 0 and width >= 128 else width // 2
    return Shape(
        depth=depth,
        d_model=width,
        d_ff=4 * width,
        n_heads=width // head_dim,
        head_dim=head_dim,
        vocab_size=vocabulary,
        context=context,
    )


def training_of(
    shape: Shape, device: torch.device, ranks: Ranks = SINGLE_PROCESS, **changes: Any
) -> Training:
    """A training of a shape that has not begun; `changes` are of the plan."""
    plan = replace(PLAN, **changes)
    return Training(shape, PARAMETRIZATION, plan, seed=0, device=device, ranks=ranks)


@cache
def python_source(context: int) -> Language:
    """The text of the Python that runs this, byte by byte."""
    keys = LanguageConfig(name="language", context=context, eval_tokens=64 * context)
    return Language.prepare(keys)


def random_ids(shape: Shape, length: int = 200_000) -> Language:
    """Random token ids, for what does not depend on their order."""
    ids = np.random.default_rng(0).integers(shape.vocab_size, size=length).astype(np.int32)
    return Language(
        train=ids,
        validation=ids[: 16 * shape.context + 1],
        vocab_size=shape.vocab_size,
        context=shape.context,
        eval_windows=8,
        tokens_per_byte=1.0,
    )


def token_file(shape: Shape, path: Path, length: int = 200_000) -> Language:
    """Random token ids that are read from a file."""
    np.random.default_rng(0).integers(shape.vocab_size, size=length).astype("<u2").tofile(path)
    files = TokenFiles((Segment(str(path), 0, length, "<u2"),), shape.vocab_size)
    return replace(random_ids(shape), train=files)


def sources_and_targets(shape: Shape) -> tuple[Shape, Objective]:
    """A shape of the same size with an encoder, and sentences that it may translate."""
    # Its metrics need sacrebleu, which the other stages do without.
    module = importlib.import_module("fathom.objectives.rows.translation.objective")
    keys = TranslationConfig(
        name="translation", context=shape.context, generated=GeneratedConfig(pairs=2000)
    )
    objective = module.Translation.prepare(keys)
    stacks = replace(
        shape,
        vocab_size=objective.vocab_size,
        source_vocab_size=objective.source_vocab_size,
        encoder_depth=shape.depth // 2,
    )
    return stacks, objective


def sizes(setup: Setup) -> Sizes:
    """Shapes of about one size: 10M on a GPU, thousands if tiny."""
    return SMALL if setup.tiny else LARGE


def trial_of(setup: Setup, **train: object) -> tuple[StudyConfig, Budget, TrialSpec]:
    """A trial of a search of Python's source, at a middle depth; `train` are keys of its group."""
    size, tokens, batch = ("10k", 8192, 8) if setup.tiny else ("10M", 4_194_304, 256)
    config = study_of(
        {
            "study": "benchmark",
            "objective": {"name": "language", "context": 64, "eval_tokens": 4096},
            "budgets": [size],
            "count": "non_embedding",
            "tokens": tokens,
            "train": {"batch_size": batch, "evaluations": 4, "diagnostics": False, **train},
            "stopping": {"enabled": False},
        }
    )
    (budget,) = expand_budgets(config)
    shapes = feasible_shapes(config, budget, 256)
    depths = sorted({shape.depth for shape in shapes})
    shape = nearest_shape(shapes, depth=depths[len(depths) // 2], ff_ratio=4.0)
    return config, budget, standalone_spec("trial", config, budget, shape)
