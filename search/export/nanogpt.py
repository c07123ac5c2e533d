"""A folder for nanoGPT: a configuration file for its train.py, and the size of the vocabulary."""

import pickle
from dataclasses import replace
from pathlib import Path

from fathom.models.options import Activation
from fathom.search.export.hugging_face import GPT2
from fathom.search.export.model import ExportedModel, Files
from fathom.search.formatting import shell_command
from fathom.search.study.planning.budget import warmup_steps

ARCHITECTURES = (
    replace(
        GPT2,
        name="GPT",
        activation=(Activation.GELU,),
        biases=(False, True),
        tied=(True,),
        d_ff_is_4_d_model=True,
        transposed=False,
    ),
)
CONFIG = "train_fathom.py"


def sizes(model: ExportedModel) -> dict[str, int | float | bool]:
    """Returns the arguments of nanoGPT's `GPTConfig`."""
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


def files(model: ExportedModel) -> Files:
    """Returns the configuration file, and meta.pkl with the size of the vocabulary."""
    budget = model.budget
    # The configuration file may only set what train.py knows, which the vocabulary is not.
    known = {name: value for name, value in sizes(model).items() if name != "vocab_size"} | {
        "dataset": "fathom",
        "out_dir": f"out-{model.name}",
        "batch_size": budget.batch_size,
        "gradient_accumulation_steps": 1,
        "max_iters": budget.steps,
        "lr_decay_iters": budget.steps,
        "warmup_iters": warmup_steps(model.config, budget),
    }
    head = f"# {model.name}: {model.shape.params_total:,} parameters, found by Fathom.\n"
    lines = "".join(f"{name} = {value!r}\n" for name, value in known.items())
    meta = pickle.dumps({"vocab_size": model.shape.vocab_size}, protocol=4)
    return {CONFIG: head + lines, "meta.pkl": meta}


def how_to_load(model: ExportedModel, folder: str) -> list[str]:
    """Returns the commands for a checkout of nanoGPT; the user must provide train.bin and
    val.bin."""
    here = Path(folder).absolute()
    copy = shell_command("cp", here / "meta.pkl", "data/fathom/")
    return [
        f"mkdir -p data/fathom && {copy}    # beside train.bin, val.bin",
        shell_command("python", "train.py", here / CONFIG),
    ]
