"""Ladders as people publish them: `search/tables/grouped/ladder_file.py`."""

import json
from pathlib import Path

import pytest

from fathom.models.shape import Count
from fathom.search.analysis.spending.ladder_check import LadderRung
from fathom.search.tables.errors import TableError
from fathom.search.tables.grouped.ladder_file import read_ladder

PYTHIA = """name,n_layer,hidden_size,params (M),tokens
410m,24,1024,405.3,300B
70m,6,512,70.4,300B
"""


def table(folder: Path, text: str) -> list[Path]:
    (folder / "sizes.csv").write_text(text)
    return [folder / "sizes.csv"]


def test_a_table_has_names_sizes_and_tokens_and_is_read_by_size(tmp_path: Path) -> None:
    assert read_ladder(table(tmp_path, PYTHIA), {}, Count.TOTAL) == [
        LadderRung(name="70m", params=70_400_000, depth=6, d_model=512, tokens=300 * 10**9),
        LadderRung(name="410m", params=405_300_000, depth=24, d_model=1024, tokens=300 * 10**9),
    ]


def test_parameters_without_embeddings_are_those_of_the_layers_if_no_column_has_them(
    tmp_path: Path,
) -> None:
    found = read_ladder(table(tmp_path, PYTHIA), {}, Count.NON_EMBEDDING)
    assert [rung.params for rung in found] == [12 * 6 * 512**2, 12 * 24 * 1024**2]


def test_a_column_of_another_name_is_told(tmp_path: Path) -> None:
    files = table(tmp_path, PYTHIA.replace("n_layer", "blocks of it"))
    with pytest.raises(TableError, match=r"must have a column that is the depth.*--map"):
        read_ladder(files, {}, Count.TOTAL)
    assert len(read_ladder(files, {"blocks of it": "depth"}, Count.TOTAL)) == 2


def config(folder: Path, **values: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(values))
    return folder / "config.json"


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """Configurations with other names of the same sizes."""
    gpt = {"n_layer": 6, "n_embd": 512, "n_head": 8, "n_positions": 64, "vocab_size": 300}
    llama = {
        "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
        "num_key_value_heads": 4, "intermediate_size": 2816, "vocab_size": 300,
    }  # fmt: skip
    return [
        config(tmp_path / "big", model_type="llama", **llama),
        config(tmp_path / "small", model_type="gpt2", **gpt),
    ]


def test_configurations_of_models_are_rungs_by_the_keys_of_each(models: list[Path]) -> None:
    found = read_ladder(models, {}, Count.NON_EMBEDDING)
    small = 12 * 6 * 512**2 + 6 * 13 * 512 + 2 * 512
    big = 24 * (2 * 1024 * (1024 + 256) + 3 * 1024 * 2816) + 49 * 1024
    assert [(rung.name, rung.depth, rung.d_model, rung.params) for rung in found] == [
        ("small", 6, 512, small),
        ("big", 24, 1024, big),
    ]


def test_a_map_loses_no_model_whose_keys_have_other_names(models: list[Path]) -> None:
    with pytest.raises(TableError, match=r"--map names columns of a table.*own keys; drop it"):
        read_ladder(models, {"n_layer": "depth"}, Count.NON_EMBEDDING)


def test_a_row_of_a_table_without_any_size_is_refused_and_a_blank_one_is_none(
    tmp_path: Path,
) -> None:
    assert len(read_ladder(table(tmp_path, PYTHIA + ",,,,\n"), {}, Count.TOTAL)) == 2
    with pytest.raises(TableError, match=r"sizes.csv:4: a model must have the depth, got none"):
        read_ladder(table(tmp_path, PYTHIA + "1b,,,,\n"), {}, Count.TOTAL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PYTHIA.replace(",24,", ",0,"), r"sizes.csv:2: depth must be a number from 1 to 10,000"),
        (PYTHIA.replace(",24,", ",,"), r"sizes.csv:2: a model must have the depth, got none"),
        (PYTHIA.replace("405.3", "many"), r"params_total must be a number .* got 'many'"),
        (PYTHIA.replace("405.3", "nan"), r"params_total must be a number .* got 'nan'"),
        (PYTHIA.replace("405.3", ""), r"must have the params_total, as the law counts them"),
        (PYTHIA.splitlines()[0] + "\n", r"must have a row for each model, got none"),
    ],
)
def test_a_rung_without_a_depth_or_a_size_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(TableError, match=message):
        read_ladder(table(tmp_path, text), {}, Count.TOTAL)


def test_several_tables_and_files_that_are_no_configuration_are_refused(tmp_path: Path) -> None:
    [file] = table(tmp_path, PYTHIA)
    with pytest.raises(TableError, match=r"one table, or a config.json of each model, got 2"):
        read_ladder([file, file], {}, Count.TOTAL)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(TableError, match=r"must be the configuration of a model as JSON"):
        read_ladder([tmp_path / "config.json"], {}, Count.TOTAL)
