"""Compares our model with other frameworks' models of our export: parameters and loss.

python -m benchmarks.answers.trained.exports --nanogpt PATH

Frameworks that are not installed are left out.
"""

import argparse
import contextlib
import importlib.util
import io
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.printed_table import PrintedTable, add_json_option
from fathom.models.network.transformer import Transformer
from fathom.models.options import Activation, Normalization, Positions
from fathom.models.parametrization import Scheme
from fathom.models.shape import Shape
from fathom.search.export.best import BestShape
from fathom.search.export.formats import model_of, write_folder
from fathom.search.export.weights import write_weights
from fathom.search.study.file.study_file import study_of
from fathom.search.training.saving import checkpoint
from fathom.search.training.saving.weights_folder import WEIGHTS, Note, claim

RMS, LAYER = Normalization.RMS, Normalization.LAYER
NONE, LEARNED = Positions.NONE, Positions.LEARNED
CASES: dict[str, tuple[dict[str, Any], ...]] = {
    "hf": (
        {"norm": RMS, "gated": True},
        {"norm": RMS, "gated": True, "biases": True, "tied": False},
        {"norm": RMS, "gated": True, "positions": NONE},
        {"norm": RMS, "gated": True, "qk_norm": True, "queries_per_key": 2},
        {"norm": RMS, "qk_norm": True, "activation": Activation.RELU2},
        {"norm": RMS},
        {"norm": LAYER, "tied": False},
        {"norm": LAYER, "biases": True},
        {"norm": LAYER, "biases": True, "positions": LEARNED},
    ),
    "litgpt": (
        {"norm": RMS},
        {"norm": RMS, "gated": True, "tied": False},
        {"norm": RMS, "positions": NONE},
        {"norm": RMS, "gated": True, "qk_norm": True, "queries_per_key": 2},
        {"norm": LAYER, "biases": True},
        {"norm": LAYER, "biases": True, "gated": True},
        {"norm": LAYER, "tied": False},
    ),
    "nanogpt": (
        {"norm": LAYER, "positions": LEARNED},
        {"norm": LAYER, "positions": LEARNED, "biases": True},
    ),
    "torchtitan": (
        {"norm": RMS, "gated": True},
        {"norm": RMS, "gated": True, "tied": False},
        {"norm": RMS, "gated": True, "queries_per_key": 2},
    ),
}
"""Options of the shapes that are exported; the others are at their defaults."""
PACKAGES = {"hf": "transformers", "litgpt": "litgpt", "torchtitan": "torchtitan"}
Forward = Callable[[Tensor], Tensor]
"""Tokens (B, T) to logits (B, T, V)."""


def best_of(options: dict[str, Any], scheme: Scheme) -> BestShape:
    """A shape far from the parametrization's base, so that each of its scales counts."""
    config = study_of(
        {
            "study": "exports",
            "objective": {"name": "language", "context": 64},
            "budgets": ["200k"],
            "model": {"parametrization": {"scheme": scheme.value, "init_std": 0.1}},
        }
    )
    shape = Shape(
        depth=4, d_model=64, d_ff=256, n_heads=4, head_dim=16, vocab_size=256, context=64, **options
    )
    return BestShape(config, 200_000, shape)


def trained(best: BestShape, folder: Path) -> Transformer:
    """Writes a folder like that of `fathom train`; returns its model, with random vectors."""
    model = Transformer(best.shape, best.config.model.parametrization.build())
    generator = torch.Generator().manual_seed(0)
    model.initialise(generator)
    for weight in model.parameters():
        if weight.dim() == 1:
            weight.data += torch.randn(weight.shape, generator=generator) / 4
    claim(folder, Note(best.budget, best.shape, best.config))
    checkpoint.save(model.state_dict(), folder / WEIGHTS)
    return model.eval()


def hugging_face(folder: Path, _shape: Shape, _checkout: Path | None) -> tuple[Any, Forward]:
    """Returns the model that `AutoModelForCausalLM` loads."""
    model = import_module("transformers").AutoModelForCausalLM.from_pretrained(folder)
    return model, lambda tokens: model(tokens).logits


def litgpt(folder: Path, shape: Shape, _checkout: Path | None) -> tuple[Any, Forward]:
    """Returns the model that LitGPT's pretraining builds and loads."""
    library = import_module("litgpt")
    model = library.GPT(library.Config.from_file(folder / "model_config.yaml"))
    if shape.tied:  # what --train.tie_embeddings does
        model.transformer.wte.weight = model.lm_head.weight
    model.load_state_dict(torch.load(folder / "lit_model.pth"))
    return model, model


def nanogpt(folder: Path, _shape: Shape, checkout: Path | None) -> tuple[Any, Forward]:
    """Returns the model that nanoGPT's sample.py loads; targets make it return all logits."""
    assert checkout is not None
    module = module_of("nanogpt_model", checkout / "model.py")
    state = torch.load(folder / "ckpt.pt")
    model = module.GPT(module.GPTConfig(**state["model_args"]))
    model.load_state_dict(state["model"])
    return model, lambda tokens: model(tokens, tokens)[0]


def torchtitan(folder: Path, _shape: Shape, _checkout: Path | None) -> tuple[Any, Forward]:
    """Returns torchtitan's Llama 3 with the `hf` export's weights, read by its own adapter."""
    attention = import_module("torchtitan.models.common.attention")
    module = module_of("fathom_llama3", folder / "fathom_llama3.py")
    module.fathom()  # what `--config fathom` takes
    config = module.model_config()
    for layer in config.layers:
        # The kinds that its language models train with need a GPU.
        layer.attention.inner_attention = attention.ScaledDotProductAttention.Config()
    model = config.build()
    model.init_states()
    adapter = module.Llama3StateDictAdapter(config, None)
    weights = adapter.from_hf(load_file(folder / "model.safetensors"))
    model.load_state_dict(weights)
    return model, model


BUILDERS = {"hf": hugging_face, "litgpt": litgpt, "nanogpt": nanogpt, "torchtitan": torchtitan}


def module_of(name: str, path: Path) -> Any:
    """Imports a Python file as a module of the given name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def export(best: BestShape, name: str, training: Path, out: Path) -> str:
    """Writes the folder with its weights; returns the name of the framework's model."""
    weighted = "hf" if name == "torchtitan" else name
    model = model_of(best, weighted, weights=training)
    write_folder(model, weighted, out, partial(write_weights, model, weighted, training))
    if name != weighted:
        model = model_of(best, name)
        write_folder(model, name, out / name, None)
        (out / name / "fathom_llama3.py").rename(out / "fathom_llama3.py")
    return model.architecture.name


@torch.no_grad()
def row(name: str, options: dict[str, Any], scheme: Scheme, checkout: Path | None) -> list[object]:
    """Returns the cells of a row: a model's count and loss, here and in the other framework."""
    best = best_of(options, scheme)
    tokens = torch.randint(256, (8, 64), generator=torch.Generator().manual_seed(1))
    quiet = contextlib.redirect_stdout(io.StringIO())  # nanoGPT says what it builds
    with tempfile.TemporaryDirectory() as temporary, quiet:
        folder = Path(temporary)
        ours = trained(best, folder / "trained")
        architecture = export(best, name, folder / "trained", folder / "out")
        theirs, forward = BUILDERS[name](folder / "out", best.shape, checkout)
        theirs.eval()
        losses = [loss_of(model, tokens) for model in (ours, forward)]
    count = sum(weight.numel() for weight in theirs.parameters())
    text = ", ".join(f"{key}: {str(value).lower()}" for key, value in options.items())
    known = [name, architecture, text, scheme.value, best.shape.params_total, count]
    return [*known, round(losses[0], 6), f"{abs(losses[1] - losses[0]):.0e}"]


def loss_of(forward: Forward, tokens: Tensor) -> float:
    """Mean nats of the next token."""
    logits = forward(tokens)[:, :-1].double()
    return float(F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))


def present(checkout: Path | None) -> Iterator[str]:
    """Returns the formats whose framework is installed; prints a line for each that is not."""
    for name in CASES:
        if name == "nanogpt" and checkout is not None:
            yield name
            continue
        try:
            version(PACKAGES[name])
        except (KeyError, PackageNotFoundError):
            print(f"{name} is left out: its framework is not here")
        else:
            yield name


COLUMNS = {
    "format": "",
    "its model": "",
    "options": "",
    "scheme": "",
    "parameters": ",",
    "there": ",",
    "loss": ".6f",
    "differs by": "",
}


def main() -> None:
    """Prints the table, a row for each framework, shape and scheme."""
    parser = argparse.ArgumentParser(description="Counts and losses of exported models.")
    parser.add_argument("--nanogpt", type=Path, help="a checkout of karpathy/nanoGPT")
    add_json_option(parser)
    arguments = parser.parse_args()
    checkout = arguments.nanogpt
    names = list(present(checkout))
    versions = [f"{name} {version(name)}" for key, name in PACKAGES.items() if key in names]
    print(", ".join([f"torch {torch.__version__}", *versions]), end="\n\n")
    table = PrintedTable(COLUMNS, arguments.json)
    for name in names:
        for options in CASES[name]:
            for scheme in (Scheme.STANDARD, Scheme.COMPLETEP):
                table.add(*row(name, options, scheme, checkout))


if __name__ == "__main__":
    main()
