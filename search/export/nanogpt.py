"""A folder for nanoGPT: a configuration file for its train.py, and how many ids there are."""

import pickle
from pathlib import Path

from fathom.models.shape import Normalization, Positions
from fathom.search.export.architectures import Architecture
from fathom.search.export.hugging_face import GPT2, GPT2_LAYERS
from fathom.search.export.model import Files, Model

ARCHITECTURES = (
    Architecture(
        name="GPT",
        norm=(Normalization.LAYER,),
        gated=(False,),
        positions=(Positions.LEARNED,),
        tied=(True,),
        square=True,
        d_ff_is_4_d_model=True,
        layers=GPT2_LAYERS,
        names=GPT2,
    ),
)
CONFIG = "train_fathom.py"


def sizes(model: Model) -> dict[str, int | float | bool]:
    """What its `GPTConfig` takes."""
    shape = model.shape
    return {
        "n_layer": shape.depth,
        "n_head": shape.n_heads,
        "n_embd": shape.d_model,
        "block_size": shape.context,
        "bias": shape.biases,
        "vocab_size": shape.vocab_size,
        "dropout": 0.0,
    }


def files(model: Model) -> Files:
    """The configuration file, and the meta.pkl by which train.py knows the vocabulary."""
    budget, settings = model.budget, model.config.train
    # Its configuration file may only set what train.py knows, and the vocabulary is not among it.
    known: dict[str, object] = dict(sizes(model))
    del known["vocab_size"]
    known |= {
        "dataset": "fathom",
        "out_dir": f"out-{model.name}",
        "batch_size": budget.batch_size,
        "gradient_accumulation_steps": 1,
        "max_iters": budget.steps,
        "lr_decay_iters": budget.steps,
        "warmup_iters": max(1, round(settings.warmup * budget.steps)),
    }
    head = f"# {model.name}: {model.shape.params_total:,} parameters, found by Fathom.\n"
    lines = "".join(f"{name} = {value!r}\n" for name, value in known.items())
    meta = pickle.dumps({"vocab_size": model.shape.vocab_size}, protocol=4)
    return {CONFIG: head + lines, "meta.pkl": meta}


def how_to_load(model: Model, folder: str) -> list[str]:
    """Its own commands, in a checkout; train.bin and val.bin are the user's."""
    here = Path(folder).absolute()
    return [
        f"mkdir -p data/fathom && cp {here}/meta.pkl data/fathom/    # beside train.bin, val.bin",
        f"python train.py {here}/{CONFIG}",
    ]
