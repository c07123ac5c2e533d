"""Exit statuses by verdict: a table in docs/programs.md, and the answer that is known least."""

import re
from pathlib import Path

from fathom.search.analysis.answer.verdict import Kind
from fathom.search.contract.exit_status import STATUS
from tests.support.command_line import here
from tests.support.places import ROOT
from tests.support.tables import planted_loss, write_table

NAMES = ["n_layer", "n_params", "seed", "loss"]


def test_every_verdict_but_that_of_a_plan_has_a_status_and_the_page_lists_it() -> None:
    page = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8")
    listed = {name: int(status) for status, name in re.findall(r"^\| (\d+) \| `(\w+)`", page, re.M)}
    assert listed == {kind.value: status for kind, status in STATUS.items()}
    assert set(STATUS) == set(Kind) - {Kind.PLANNED}
    assert len(set(STATUS.values())) == len(STATUS)


def test_an_answer_ends_with_0_unless_its_status_is_asked_for(tmp_path: Path) -> None:
    rows = [(d, 1e7, 0, planted_loss(d)) for d in (2, 4)]
    table = write_table(tmp_path / "two.csv", NAMES, rows)
    assert here("analyse", table, "--json").returncode == 0
    assert here("analyse", table, "--exit-verdict").returncode == STATUS[Kind.INSUFFICIENT]


def test_the_answer_that_is_known_least_decides(tmp_path: Path) -> None:
    rows = [(d, 1e7, s, planted_loss(d)) for d in (2, 4, 8, 16, 32) for s in range(3)]
    table = write_table(tmp_path / "one.csv", NAMES, rows)
    assert here("analyse", table, "--exit-verdict").returncode == 0
    more = [*rows, *((d, 1e8, 0, planted_loss(d)) for d in (2, 4))]
    table = write_table(tmp_path / "both.csv", NAMES, more)
    both = here("analyse", table, "--params", "10M", "--params", "100M", "--exit-verdict")
    assert both.returncode == STATUS[Kind.INSUFFICIENT]
