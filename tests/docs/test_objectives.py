"""docs/objectives.md: its studies are studies, its keys are all keys, its code runs."""

import re
from pathlib import Path

import pytest
import yaml

from fathom.objectives.registry import OBJECTIVES
from fathom.search.commands.train_best import train_best
from fathom.search.export.best import read_best
from fathom.search.record_json import to_values
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.keys.config import parse
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from tests.support.places import ROOT

GROUPS = {name: objective.keys for name, objective in OBJECTIVES.items()}


PAGE = (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    return PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_every_objective_has_a_section_and_a_line_in_the_table() -> None:
    for name in GROUPS:
        assert section(name), name
        assert f"[`{name}`](#{name})" in PAGE


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_every_key_of_an_objective_and_no_other_is_in_its_table(name: str) -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", section(name), re.M)
    told = {key for row in rows for key in re.findall(r"`(\w+)`", row)}

    assert told == set(GROUPS[name].model_fields) - {"name"}


def test_its_studies_are_studies() -> None:
    studies = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)

    names = {parse(study).objective.name for study in studies}
    assert names == {*OBJECTIVES, "examples.parity:Parity"} - {"language"}


def test_the_places_its_links_lead_to_exist() -> None:
    places = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", PAGE)

    assert not [place for place in places if not (ROOT / "docs" / place).exists()]


def test_its_code_prints_what_a_trained_shape_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.tsv").write_text("".join(f"A girl slept .\t{n} sleep\n" for n in range(40)))
    (tmp_path / "dev.tsv").write_text("A girl slept .\tsleep\n")
    config = parse(
        "study: s\nbudgets: [8k]\ncount: non_embedding\ntrain: {batch_size: 4}\n"
        "objective: {name: transduction, data: rows.tsv, dev: dev.tsv, context: 8}\n"
    )
    shape = plan_study(config, vocab_size_of(config), this_machine(config))[0].shapes[0]
    found = {"budget": 8000, "shape": to_values(shape)}
    content = {"best": [found], "study": config.model_dump(mode="json")}
    (tmp_path / "best.yaml").write_text(yaml.safe_dump(content))
    best = read_best(tmp_path / "best.yaml", None)
    train_best(best, tokens="6k", out=tmp_path / "out", say=lambda _line: None)

    [code] = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    exec(compile(code, "docs/objectives.md", "exec"), {})

    assert capsys.readouterr().out.rstrip("\n").endswith("sleep")
