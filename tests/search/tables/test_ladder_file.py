"""Ladders as people publish them: `search/tables/ladder_file.py`."""

import json
from pathlib import Path

import pytest

from fathom.models.shape import Count
from fathom.search.analysis.ladder_check import LadderRung
from fathom.search.tables.ladder_file import read_ladder
from fathom.search.tables.runs import TableError

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


def test_configurations_of_models_are_rungs_named_by_their_folders(tmp_path: Path) -> None:
    files = []
    for name, depth, width in (("big", 24, 1024), ("small", 6, 512)):
        (tmp_path / name).mkdir()
        files.append(tmp_path / name / "config.json")
        values = {"num_hidden_layers": depth, "hidden_size": width, "use_cache": True, "act": "x"}
        files[-1].write_text(json.dumps(values))
    found = read_ladder(files, {}, Count.NON_EMBEDDING)
    assert [(rung.name, rung.depth, rung.d_model) for rung in found] == [
        ("small", 6, 512),
        ("big", 24, 1024),
    ]


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
