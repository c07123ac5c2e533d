"""Files with the settings of runs."""

import json
from pathlib import Path

from fathom.search.study.file.safe_yaml import parse_yaml
from fathom.search.tables.folders.settings_files import SettingsFiles


def test_the_nearest_file_holds(tmp_path: Path) -> None:
    run = tmp_path / "a" / "run"
    run.mkdir(parents=True)
    (tmp_path / "config.json").write_text('{"depth": 1, "seed": 1, "batch_size": 64}')
    (run / "config.yaml").write_text("model: {n_layer: 8}\nseed: 2\nempty:\n")
    (run / "log.json").write_text('{"seed": 3}')

    files = SettingsFiles(tmp_path, parse_yaml)
    above = {"depth": 1, "batch_size": 64}
    assert files.of(run) == above | {"model.n_layer": 8, "seed": 2}
    assert files.of(run, "log") == above | {"model.n_layer": 8, "seed": 3}
    assert files.notes() == ()


def test_wandb_has_the_value_of_a_setting_one_level_deeper(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("n_layer:\n  value: 8\nwandb_version: 1\n")
    assert SettingsFiles(tmp_path, parse_yaml).of(tmp_path) == {"n_layer": 8, "wandb_version": 1}


def test_wandb_has_the_config_of_a_run_without_a_server_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "run/logs").mkdir(parents=True)
    (tmp_path / "run/files").mkdir()
    log = tmp_path / "run/logs/debug.log"
    log.write_text("2026 called with sweep_config: {}\nconfig: {'n_layer': 8, '_wandb': {}}\nend\n")
    assert SettingsFiles(tmp_path, None).of(tmp_path / "run/files") == {"n_layer": 8}
    for text in ("no config", "config: {", "config: 1", "config: " + "(" * 10_000):
        log.write_text(text)
        assert SettingsFiles(tmp_path, None).of(tmp_path / "run/files") == {}


def test_a_file_that_cannot_be_read_is_noted_once(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "args.json").write_text("[" * 100_000)
    (tmp_path / "params.json").write_text(json.dumps([1]))
    (tmp_path / "hparams.yaml").write_text("a: 1")
    (tmp_path / "config.yml").write_bytes(b"x" * 2_000_000)
    files = SettingsFiles(tmp_path, None)

    assert files.of(tmp_path) == files.of(tmp_path) == {}
    [note] = files.notes()
    assert note.startswith("settings could not be read: config.json (")
    assert "params.json (no object)" in note
    assert "hparams.yaml (pip install pyyaml)" in note
    assert note.count("args.json") == 1


def test_long_texts_and_empty_values_are_no_settings(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"prompt": "x" * 1000, "a": None, "b": [1]}))
    assert SettingsFiles(tmp_path, None).of(tmp_path) == {"b": [1]}
