"""The folder of `fathom train`: the weights, and a note of their shape and study."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from fathom.models.shape import Shape
from fathom.search.record_json import DAMAGE, problem_of, shape_from_json, to_values
from fathom.search.run_folder import write_atomically
from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.safe_yaml import parse_yaml
from fathom.search.study.file.study_file import study_of
from fathom.search.study.file.text_file import FileError, read_text
from fathom.search.study.keys.config import StudyConfig

NOTE = "training.yaml"
WEIGHTS = "weights.pt"
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class Note:
    """The shape and the study that are trained in a folder."""

    budget: int
    shape: Shape
    config: StudyConfig
    data: str = ""
    """Digest of the data; empty if the objective generates its data."""


def claim(out: Path, note: Note) -> None:
    """Writes the note of a training into its folder, which can hold no other training's checkpoint.

    Raises:
        ConfigError: when the folder holds another training.
    """
    path, content = (
        out / NOTE,
        {
            "budget": note.budget,
            "shape": to_values(note.shape),
            "data": note.data,
            "study": note.config.model_dump(mode="json", exclude={"tracking"}),
        },
    )
    if os.path.lexists(path):
        kept = read_note(out)
        if kept.data != note.data and replace(kept, data=note.data) == note:
            place = note.config.objective.place
            raise ConfigError(
                f"{out} holds a training on other data: {place} has changed since; "
                "put the old data back, or choose another folder with --out"
            )
        if kept != note:
            raise ConfigError(f"{out} holds another training; choose another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump(content, sort_keys=False))


def read_note(source: Path) -> Note:
    """The note of a folder; `source` is the folder or the weights file in it.

    Raises:
        ConfigError: when `source` is no folder of `fathom train`.
    """
    path = (source if source.is_dir() else source.parent) / NOTE
    try:
        content = parse_yaml(read_text(path))
        return Note(
            budget=content["budget"],
            shape=shape_from_json(content["shape"]),
            config=study_of(content["study"]),
            data=content["data"],
        )
    except (FileError, *DAMAGE) as error:
        raise ConfigError(
            f"{path} must say what was trained, as `fathom train` leaves it beside its weights: "
            f"{problem_of(error)}"
        ) from error
