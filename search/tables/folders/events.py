"""Reads TensorBoard's event files: each run's scalars, its hparams, and settings in its texts."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto import types_pb2 as types
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray

from fathom.search.formatting import printable
from fathom.search.tables.columns.columns import listed, meaning
from fathom.search.tables.errors import TableError
from fathom.search.tables.folders.finding import Found
from fathom.search.tables.folders.lines import SPLITS
from fathom.search.tables.folders.logged import (
    MOST_OTHERS,
    STEP,
    Keep,
    Logged,
    LoggedRun,
    Series,
    lacking,
)
from fathom.search.tables.folders.names import settings_in
from fathom.search.tables.folders.settings_files import LARGEST, LONGEST, SettingsFiles
from fathom.search.tables.open_table import flat_names

NUMBERS = {types.DT_FLOAT, types.DT_DOUBLE, types.DT_HALF, types.DT_INT32, types.DT_INT64}
"""Types of tensors that a scalar may have."""


@dataclass(slots=True)
class _EventFiles:
    """Content of the event files of a folder, or of several folders of one run."""

    scalars: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    """Tag -> step -> value; the later value if a step was written twice."""
    settings: dict[str, Any] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)
    """Tags of scalars whose meaning is not known."""
    is_session: bool = False
    """True if the folder has hparams."""


def read_events(found: Found, keep: Keep, files: SettingsFiles) -> Logged:
    """The runs of event files; the files of one folder are one run.

    Raises:
        TableError: when none has a scalar of a known name.
    """
    written: dict[Path, _EventFiles] = defaultdict(_EventFiles)
    broken = []
    for path in found.events:
        try:
            head = f"{path.parent.name}/" if _is_part(path.parent, found.root) else ""
            _read(path, head, keep, written[path.parent])
        except (DecodeError, ValueError, MemoryError):  # of a length that is damaged
            broken.append(found.name(path))
    runs = _whole_runs(written, found.root)
    others = list(dict.fromkeys(tag for run in written.values() for tag in run.others))
    if not any(run.scalars for run in runs.values()):
        got = listed(others) if others else "none"
        remedy = "; say which it is with --map TAG=loss" if others else "; log it with add_scalar"
        raise TableError(
            f"{found.label} must have a scalar that is the loss in its {len(found.events)} event "
            f"files, got {got}{remedy}"
        )
    notes = (f"event files that could not be read: {listed(broken)}",) if broken else ()
    return Logged(
        label=found.label,
        kind="runs",
        runs=[_run(found, folder, run, files) for folder, run in runs.items()],
        lacking=lacking(others),
        notes=(*notes, *files.notes()),
    )


def _read(path: Path, head: str, keep: Keep, written: _EventFiles) -> None:
    """Adds the content of an event file to `written`, with `head` before its tags; a damaged file
    is read up to the damage."""
    plugins: dict[str, str] = {}
    for event in LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            plugin = plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)
            tag = head + value.tag
            if value.tag == SESSION_START_INFO_TAG:
                written.settings |= _hparams(value)
                written.is_session = True
            elif plugin == "text":
                written.settings |= _settings_in_text(value)
            elif not keep(tag):
                if len(written.others) < MOST_OTHERS and _scalar(value) is not None:
                    written.others[tag] = None
            elif (number := _scalar(value)) is not None:
                written.scalars[tag][event.step] = number


def _scalar(value: Summary.Value) -> float | None:
    """The number of a summary, of TensorFlow 1 or 2; None for histograms and the like."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor" or value.tensor.dtype not in NUMBERS:
        return None
    sizes = [dim.size for dim in value.tensor.tensor_shape.dim]
    return float(make_ndarray(value.tensor).item()) if set(sizes) <= {1} else None


def _hparams(value: Summary.Value) -> dict[str, Any]:
    """The hyperparameters that the plugin `hparams` recorded for a session."""
    data = HParamsPluginData.FromString(value.metadata.plugin_data.content)
    named = data.session_start_info.hparams
    return {
        name: getattr(named[name], kind)
        for name in named
        if (kind := named[name].WhichOneof("kind")) not in (None, "null_value")
    }


def _settings_in_text(value: Summary.Value) -> dict[str, Any]:
    """The settings in a JSON text, such as the configuration that transformers' `Trainer` writes;
    empty for any other text."""
    text = b"".join(value.tensor.string_val[:1])
    if not text.startswith(b"{") or len(text) > LARGEST:
        return {}
    try:
        row = flat_names(json.loads(text))
    except (ValueError, RecursionError):
        return {}
    return {n: v for n, v in row.items() if v is not None and len(str(v)) <= LONGEST}


def _whole_runs(written: Mapping[Path, _EventFiles], root: Path) -> dict[Path, _EventFiles]:
    """Folder of each run -> content of the event files there and in the subfolders that belong to
    the same run."""
    runs: dict[Path, _EventFiles] = {}
    sessions: dict[Path, list[Path]] = defaultdict(list)
    for folder, part in written.items():
        if part.is_session:
            sessions[folder.parent].append(folder)
    for folder in sorted(written, key=lambda folder: len(folder.parts)):
        part, parent = written[folder], folder.parent
        if _is_part(folder, root):
            _add(runs.setdefault(parent, _EventFiles()), part.scalars, part)
        elif parent in runs and part.scalars and all(_is_one_of(folder, t) for t in part.scalars):
            # add_scalars("loss", {"val": ...}): run/loss_val
            tags = {f"{tag}/{_end(folder, tag)}": v for tag, v in part.scalars.items()}
            _add(runs[parent], tags, part)
        elif parent in runs and not runs[parent].is_session and sessions[parent] == [folder]:
            # add_hparams: run/1699999999.9, with last values of what the run may have itself
            known = {meaning(tag) for tag in runs[parent].scalars}
            tags = {tag: v for tag, v in part.scalars.items() if meaning(tag) not in known}
            _add(runs[parent], tags, part)
        else:
            runs[folder] = part
    return runs


def _is_part(folder: Path, root: Path) -> bool:
    """True for a subfolder with one split of the data, as Keras writes: run/validation."""
    return folder != root and folder.name.lower() in SPLITS


def _add(run: _EventFiles, scalars: Mapping[str, dict[int, float]], part: _EventFiles) -> None:
    run.scalars |= scalars
    run.settings |= part.settings


def _is_one_of(folder: Path, tag: str) -> bool:
    """True if `add_scalars` made the folder for the tag."""
    return folder.name.startswith(tag.replace("/", "_") + "_")


def _end(folder: Path, tag: str) -> str:
    return folder.name[len(tag) + 1 :]


def _run(found: Found, folder: Path, run: _EventFiles, files: SettingsFiles) -> LoggedRun:
    name = found.name(folder)
    series = {tag: _series(values.items()) for tag, values in run.scalars.items()}
    if not any(meaning(tag) == STEP for tag in series):
        steps = sorted({step for values in run.scalars.values() for step in values})
        series[STEP] = _series((step, float(step)) for step in steps)
    return LoggedRun(
        name=printable(name),
        settings=files.of(folder) | run.settings,
        named=settings_in(PurePosixPath(name).parts),
        series=series,
    )


def _series(values: Iterable[tuple[int, float]]) -> Series:
    """The values by step, in ascending order of the steps."""
    series = Series()
    for step, value in sorted(values):
        series.add(step, value)
    return series
