"""TensorBoard's event files, as several writers make them."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboardX import SummaryWriter as OtherWriter
from torch.utils.tensorboard import SummaryWriter

from fathom.search.tables.errors import TableError
from fathom.search.tables.folders.events import read_events
from fathom.search.tables.folders.finding import find_files
from fathom.search.tables.folders.logged import Logged, LoggedRun, keeper
from fathom.search.tables.folders.settings_files import SettingsFiles


def read(folder: Path) -> Logged:
    found = find_files(str(folder))
    return read_events(found, keeper({}, []), SettingsFiles(found.root, None))


def only_run(folder: Path) -> LoggedRun:
    [run] = read(folder).runs
    return run


def values(run: LoggedRun) -> dict[str, list[float]]:
    return {name: [round(float(str(v)), 3) for v in s.values] for name, s in run.series.items()}


@pytest.mark.parametrize("new_style", [False, True])
def test_scalars_are_read_by_step_and_a_later_one_of_a_step_holds(
    tmp_path: Path, new_style: bool
) -> None:
    writer = SummaryWriter(str(tmp_path / "d8_w64"))
    for step, loss in ((10, 3.5), (20, 3.4), (10, 3.6)):
        writer.add_scalar("Loss/val", loss, step, new_style=new_style)
    writer.add_scalar("lr", 0.1, 10)
    writer.add_tensor("tensor", torch.ones(3))
    writer.add_text("text", "words")
    writer.add_scalar("accuracy", 0.1, 10)
    writer.add_histogram("weights", np.arange(9.0), 10)
    writer.close()
    run = only_run(tmp_path)

    assert (run.name, run.named) == ("d8_w64", {"depth": "8", "d_model": "64"})
    assert values(run) == {"Loss/val": [3.6, 3.4], "lr": [0.1], "step": [10, 20]}
    assert "(there are also accuracy)" in read(tmp_path).lacking["loss"]


@pytest.mark.parametrize("writer_class", [SummaryWriter, OtherWriter])
def test_hparams_are_settings_of_the_run_that_logged_them(
    tmp_path: Path, writer_class: type[SummaryWriter]
) -> None:
    writer = writer_class(str(tmp_path / "run"))
    writer.add_scalar("val/loss", 3.5, 10)
    writer.add_hparams({"n_layer": 8, "opt": "adam", "tied": True}, {"hparam/val_loss": 3.0})
    writer.close()
    run = only_run(tmp_path)

    assert run.settings == {"n_layer": 8.0, "opt": "adam", "tied": True}
    assert values(run) == {"val/loss": [3.5], "step": [10]}


def test_final_values_beside_hparams_count_where_there_is_no_curve(tmp_path: Path) -> None:
    for depth in (4, 8):
        writer = SummaryWriter(str(tmp_path / f"run{depth}"))
        writer.add_hparams({"n_layer": depth}, {"hparam/val_loss": 3.0})
        writer.close()
    runs = read(tmp_path).runs

    assert [run.settings for run in runs] == [{"n_layer": 4.0}, {"n_layer": 8.0}]
    assert values(runs[0]) == {"hparam/val_loss": [3.0], "step": [0]}


def test_folders_of_add_scalars_are_parts_of_the_run(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "d8"))
    writer.add_scalars("loss", {"train": 3.0, "val": 3.5}, 10)
    writer.close()
    run = only_run(tmp_path)

    assert run.name == "d8"
    assert values(run) == {"loss/train": [3.0], "loss/val": [3.5], "step": [10]}


def test_folders_of_training_and_validation_are_parts_of_the_run(tmp_path: Path) -> None:
    for part, loss in (("train", 3.0), ("validation", 3.5)):
        writer = SummaryWriter(str(tmp_path / "d8" / part))
        writer.add_scalar("epoch_loss", loss, 1)
        writer.close()
    run = only_run(tmp_path)

    assert run.name == "d8"
    assert values(run) == {
        "train/epoch_loss": [3.0], "validation/epoch_loss": [3.5], "step": [1],
    }  # fmt: skip
    assert [run.name for run in read(tmp_path / "d8/train").runs] == ["."]


def test_settings_in_a_text_of_json_are_settings(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "run"))
    writer.add_text("model_config", json.dumps({"num_hidden_layers": 8, "prompt": "x" * 1000}))
    writer.add_text("note", "{not json")
    writer.add_scalar("eval/loss", 3.5, 10)
    writer.close()

    assert only_run(tmp_path).settings == {"num_hidden_layers": 8}


def test_a_torn_file_is_read_up_to_there_and_one_that_is_none_is_noted(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "d8"))
    for step in range(1, 10):
        writer.add_scalar("val/loss", 3.5, step)
    writer.close()
    [path] = (tmp_path / "d8").iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    (tmp_path / "d4").mkdir()
    (tmp_path / "d4/events.out.tfevents.1").write_bytes(b"no event file")

    runs = {run.name: run for run in read(tmp_path).runs}
    assert values(runs["d8"])["val/loss"] == [3.5] * 8
    assert not runs["d4"].series.get("val/loss")


def test_a_record_longer_than_the_memory_ends_its_file(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "run"))
    writer.add_scalar("val/loss", 3.5, 10)
    writer.close()
    [file] = (tmp_path / "run").iterdir()
    length = struct.pack("<Q", 1 << 50)
    with file.open("ab") as damaged:
        damaged.write(length + struct.pack("<I", masked_crc32c(length)) + b"x")
    found = read(tmp_path)
    assert values(found.runs[0])["val/loss"] == [3.5]
    assert found.notes == (f"event files that could not be read: run/{file.name}",)


def test_event_files_without_a_loss_are_one_line_with_the_flag(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "d8"))
    writer.close()
    with pytest.raises(TableError, match="got none; log it with add_scalar"):
        read(tmp_path)
    writer = SummaryWriter(str(tmp_path / "d8"))
    writer.add_scalar("teacher forced", 3.5, 1)
    writer.close()
    with pytest.raises(TableError, match="got teacher forced; say which it is with --map TAG=loss"):
        read(tmp_path)
