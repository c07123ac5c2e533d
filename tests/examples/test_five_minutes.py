"""The recipe for agents, examples/five_minutes.md, on the trainings of nanoGPT that it tells of."""

import json
import re
from pathlib import Path

import pytest

from tests.support.command_line import fathom
from tests.support.places import ROOT

RUNS = ROOT / "benchmarks" / "data" / "nanogpt_20_seconds.csv"
RECIPE = (ROOT / "examples" / "five_minutes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("trainings", "size", "kind"),
    [(25, (53_504, 101_000), "edge"), (33, (41_000, 104_000), "insufficient")],
)
def test_what_the_recipe_says_of_nanogpt_is_what_its_command_answers(
    trainings: int, size: tuple[int, int], kind: str, tmp_path: Path
) -> None:
    lines = RUNS.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "runs.csv").write_text("".join(lines[: 1 + trainings]), encoding="utf-8")
    [command] = re.findall(r"fathom (analyse .+) > answer.json", RECIPE)
    reply = json.loads(fathom(*command.split(), cwd=tmp_path).stdout)
    [answer], [sized] = reply["answers"], reply["sizes"]

    assert answer["answer"]["depth"] == 1
    assert sized["kind"] == kind
    assert sized["interval"] == pytest.approx(size, rel=0.1)
