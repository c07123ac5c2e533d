"""The list of formats that are folders, and the writing of such a folder as a whole or not at
all."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from fathom.models.options import Normalization
from fathom.models.shape import Shape
from fathom.objectives.errors import nearest
from fathom.objectives.files.durable import put_in_place
from fathom.search.export import hugging_face, litgpt, nanogpt, torchtitan
from fathom.search.export.architectures import Architecture
from fathom.search.export.best import BestShape
from fathom.search.export.model import ExportedModel, Files, fit
from fathom.search.export.tokens import ids_in_words
from fathom.search.formatting import shell_command
from fathom.search.run_folder import UNFINISHED
from fathom.search.study.file.errors import ConfigError
from fathom.search.training.saving.weights_folder import read_note


class Format(Protocol):
    """Interface of the modules that write a folder for one framework, such as `litgpt.py`."""

    @property
    def ARCHITECTURES(self) -> Sequence[Architecture]:
        """The framework's models; the first one that can have a shape is used."""

    def files(self, model: ExportedModel) -> Files:
        """Returns all files of the exported folder except the weights."""

    def how_to_load(self, model: ExportedModel, folder: str) -> list[str]:
        """Returns the commands that load the exported folder in its framework."""


FORMATS: dict[str, Format] = {
    "hf": hugging_face,
    "litgpt": litgpt,
    "nanogpt": nanogpt,
    "torchtitan": torchtitan,
}


def model_of(
    best: BestShape, name: str, *, nearest: bool = False, weights: Path | None = None
) -> ExportedModel:
    """Returns the best shape as the framework of a format builds it.

    `weights` is the folder of `fathom train`, or the weights file in it.

    Raises:
        ConfigError: if there is no such format, or the format has no such model or weights.
    """
    _check(name, weights=weights is not None)
    fitted = partial(fit, name=name, architectures=FORMATS[name].ARCHITECTURES, nearest=nearest)
    if weights is None:
        return fitted(best, weights=False)
    model, note = fitted(best, weights=True), read_note(weights)
    if note.shape != best.shape:
        raise ConfigError(
            f"{weights} must hold the shape to export, {_sizes(best.shape)}, got "
            f"{_sizes(note.shape)}; train that shape, or choose another with --params"
        )
    # The weights may be of another text than the study's, and then have its tokenizer.
    return replace(model, best=replace(best, config=note.config))


def taking_weights(best: BestShape) -> list[str]:
    """Returns the formats that can have weights of this shape."""
    found = []
    for name in FORMATS:
        with contextlib.suppress(ConfigError):
            _check(name, weights=True)
            fit(best, name, FORMATS[name].ARCHITECTURES, nearest=False, weights=True)
            found.append(name)
    return found


def next_step(best: BestShape, source: Path, weights: Path, **chosen: str | int | None) -> str:
    """Returns a line with the command that exports a trained shape, or one that says that no format
    takes the weights; the options `chosen` select the shape."""
    named = [(f"--{name}", str(value)) for name, value in chosen.items() if value]
    which = [word for option in named for word in option]
    ways = taking_weights(best)
    name = ways[0] if ways else "hf"
    command = shell_command(
        "fathom", "export", source, *which, "--format", name, "--weights", weights
    )
    return f"Next: {command}" if ways else f"No other framework takes them; `{command}` says why"


def _check(name: str, *, weights: bool) -> None:
    if name == "yaml":
        raise ConfigError(
            f"`--weights` and `--nearest` need another `--format` than yaml: {', '.join(FORMATS)}"
        )
    known = ["yaml", *FORMATS]
    if name not in known:
        raise ConfigError(
            f"`--format` must be one of {', '.join(known)}, got {name!r}; "
            f"{nearest(name, known, otherwise='yaml is the default')}"
        )
    if weights and name == "torchtitan":
        raise ConfigError(
            "`--format torchtitan` takes no `--weights`; torchtitan reads those of `--format hf` "
            "with --checkpoint.initial_load_path FOLDER --checkpoint.initial_load_in_hf"
        )


def write_folder(
    model: ExportedModel, name: str, out: Path | None, carry: Callable[[Path], None] | None
) -> list[str]:
    """Writes the folder and returns the lines to print; `carry`, if given, writes the weights into
    it.

    Raises:
        ConfigError: if the folder exists.
    """
    folder = out or Path(f"{model.name}-{name}")
    if os.path.lexists(folder):
        raise ConfigError(f"{folder} exists already; move it away or choose another with --out")
    lines = [f"{model.architecture.name}, with {_sizes(model.shape)}", *_differences(model)]
    how = FORMATS[name].how_to_load(model, str(folder))
    content = FORMATS[name].files(model) | {"README.md": _readme(model, name, lines, how)}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, suffix=UNFINISHED) as temporary:
        unfinished = Path(temporary, folder.name)
        unfinished.mkdir()
        for file, text in content.items():
            raw = text.encode() if isinstance(text, str) else text
            (unfinished / file).write_bytes(raw)
        if carry is not None:
            carry(unfinished)
        put_in_place(unfinished, folder)
    return [f"{folder}: {lines[0]}", *lines[1:], "", *how]


def _sizes(shape: Shape) -> str:
    return (
        f"{shape.params_total:,} parameters as Fathom counts them: depth {shape.depth}, d_model "
        f"{shape.d_model}, d_ff {shape.d_ff}, {shape.n_heads} heads of {shape.head_dim}"
    )


def _differences(model: ExportedModel) -> list[str]:
    if model.centred:
        return [
            "Its norms are RMSNorm where the search had layer norm; the weights are centred, so "
            "that both compute the same."
        ]
    if model.shape.norm is not model.best.shape.norm:
        assert model.shape.norm is Normalization.RMS
        return [
            "Its norms are RMSNorm where the search had layer norm, with as many parameters; the "
            "reported loss is that of layer norm."
        ]
    return []


def _readme(model: ExportedModel, name: str, lines: Sequence[str], how: Sequence[str]) -> str:
    settings = model.config.model.parametrization
    weights = (
        "The weights are those that `fathom train` left; its parametrization is folded into them."
        if model.with_weights
        else "There are no weights: it starts as the framework draws them. The learning rate of "
        f"the search, {model.config.train.learning_rate:g}, belongs to Fathom's parametrization "
        f"(`{settings.scheme.value}`), not to the framework's: tune it again."
    )
    parts = [
        f"# {model.name} for `{name}`",
        *lines,
        weights,
        ids_in_words(model.config.objective),
        "```\n" + "\n".join(how) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"
