"""docs/costs.md: its plans for GPUs and the prices beside them are what `fathom plan` prints."""

import os
import re
import shlex
import sys
from array import array
from pathlib import Path

import pytest

from tests.support.command_line import run
from tests.support.markdown import blocks_of
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "costs.md"
BLOCKS = blocks_of(PAGE)
[STUDY] = [block.text for block in BLOCKS if block.language == "yaml"]
PLANS = {
    block.text.strip(): BLOCKS[at + 1].text.splitlines()
    for at, block in enumerate(BLOCKS)
    if block.text.startswith("fathom plan l4.yaml")
}
TABLE = re.findall(r"^\| `(--set [^`]+)` \| ([\d.]+) \|", PAGE.read_text("utf-8"), re.M)


def planned(command: str, folder: Path) -> str:
    """What the command prints of the page's study, for a train file of 4 GB that takes no disk."""
    (folder / "l4.yaml").write_text(STUDY, encoding="utf-8")
    data = folder / "runs" / "data"
    data.mkdir(parents=True)
    ids = array("H", range(1, 50_001))
    (data / "val.bin").write_bytes(ids[::-1].tobytes())
    with (data / "train_0.bin").open("wb") as file:
        file.write(ids.tobytes())
        file.truncate(4_000_000_000)
    _, *arguments = shlex.split(command)
    done = run(
        *(sys.executable, "-P", "-m", "fathom", *arguments), cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "XDG_CACHE_HOME": str(folder)},
        timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.drill
@pytest.mark.parametrize("command", PLANS)
def test_a_plan_is_printed_as_the_page_has_it(command: str, tmp_path: Path) -> None:
    lines = [line.rstrip() for line in planned(command, tmp_path).splitlines()]

    assert not [line for line in PLANS[command] if line not in lines]


@pytest.mark.drill
@pytest.mark.parametrize(("options", "price"), TABLE)
def test_another_choice_costs_what_the_page_says(options: str, price: str, tmp_path: Path) -> None:
    text = planned(f"fathom plan l4.yaml --gpu L4 --price 0.8 {options}", tmp_path)

    assert f"GPU-hours: {price} at 0.8 an hour" in text
