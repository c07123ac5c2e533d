"""docs/export.md: its table is what the exporters say, and its code trains what they write."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fathom.models.options import Normalization, Positions
from fathom.search.export.formats import FORMATS, model_of, write_folder
from fathom.search.study.file.errors import ConfigError
from tests.support.places import ROOT
from tests.support.trained import best_of

PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
[TABLE] = re.findall(r"^\| `model` \|.*\n\|[-|]*\n((?:\|.*\n)+)", PAGE, re.M)
ROWS = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in TABLE.splitlines()]


def options_of(cell: str) -> dict[str, Any]:
    """The options of a row, as its first code says."""
    code = re.search(r"`(.*?)`", cell)
    values: dict[str, Any] = yaml.safe_load(f"{{{code[1]}}}") if code else {}
    kinds = {"norm": Normalization, "positions": Positions}
    return {name: kinds.get(name, bool)(value) for name, value in values.items()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_cell_of_the_table_is_true(row: list[str]) -> None:
    best = best_of(d_ff=96, **options_of(row[0]))
    for name, cell in zip(FORMATS, row[1:], strict=True):
        if not cell:
            with pytest.raises(ConfigError):
                model_of(best, name, nearest=True)
            continue
        found = model_of(best, name, nearest="--nearest" in cell)
        assert found.architecture.name.replace("GPT2", "GPT-2") in cell
        assert (found.shape == best.shape) == ("--nearest" not in cell)


def test_the_table_has_a_column_for_each_format() -> None:
    assert len(ROWS) > 8
    assert {len(row) for row in ROWS} == {1 + len(FORMATS)}


def test_its_code_trains_an_exported_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 40)
    write_folder(model_of(best_of(), "hf", nearest=True), "hf", tmp_path / "mine-10M-hf", None)
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)

    exec(compile(code, "docs/export.md", "exec"), {})

    assert float(capsys.readouterr().out.split()[0]) < 0.9 * math.log(256)
