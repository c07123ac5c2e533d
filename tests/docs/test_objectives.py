"""docs/objectives.md and docs/tasks/: studies are studies, objectives have keys, code runs."""

import re
from pathlib import Path

import pytest
import yaml

from fathom.objectives.registry import OBJECTIVES
from fathom.search.commands.train_best import train_best
from fathom.search.export.best import read_best
from fathom.search.record_json import to_values
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.planning.plan import plan_study, vocab_size_of
from tests.support.places import ROOT

OVERVIEW = (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")
PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs" / "tasks").glob("*.md"))
}
ALL = "\n".join([OVERVIEW, *PAGES.values()])


def test_every_objective_has_a_section_and_a_line_in_the_table() -> None:
    for name in OBJECTIVES:
        [page] = [page for page, text in PAGES.items() if f"\n## {name}\n" in text]
        assert f"[`{name}`](tasks/{page}#{name})" in OVERVIEW
        assert f"[Keys](../config.md#objective-{name})" in PAGES[page]


def test_its_studies_are_studies() -> None:
    studies = re.findall(r"^```yaml\n(.*?)^```", ALL, re.M | re.S)

    names = {parse(study).objective.name for study in studies}
    assert names == {*OBJECTIVES, "examples.parity:Parity"} - {"language"}


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
    shape = plan_study(
        config, vocab_size_of(config.objective), this_machine(config.resources, config.train)
    )[0].shapes[0]
    found = {"budget": 8000, "shape": to_values(shape)}
    content = {"best": [found], "study": config.model_dump(mode="json")}
    (tmp_path / "best.yaml").write_text(yaml.safe_dump(content))
    best = read_best(tmp_path / "best.yaml", None)
    train_best(best, tokens="6k", out=tmp_path / "out", say=lambda _line: None)

    [code] = re.findall(r"^```python\n(.*?)^```", ALL, re.M | re.S)
    exec(compile(code, "docs/tasks/pairs.md", "exec"), {})

    assert capsys.readouterr().out.rstrip("\n").endswith("sleep")
