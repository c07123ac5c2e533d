"""`fathom report --card`: what it prints, where it writes, and what it refuses."""

from pathlib import Path

import pytest
from PIL import Image

from fathom.search.study.file.study_file import dump
from tests.support.command_line import assert_refused, here
from tests.support.dry_run import Simulation, scheduler, study


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    search = scheduler(study(), tmp_path_factory.mktemp("runs") / "simulated")
    Simulation(search).run()
    search.folder.config.write_text(dump(search.config))
    return search.folder.path


def test_the_card_is_printed_and_written_with_its_picture(run: Path) -> None:
    done = here("report", run, "--card")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (run / "card.md").read_text(encoding="utf-8")
    assert done.stdout.startswith("# simulated: how deep")
    with Image.open(run / "card.png") as picture:
        assert picture.size == (1200, 630)
    assert f"written to {run / 'card.md'}" in done.stderr


def test_another_folder_may_take_the_card(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "paper" / "depth"
    assert here("report", run, "--card", "--out", out).returncode == 0
    assert {path.name for path in out.iterdir()} == {"card.md", "card.png"}


def test_a_run_without_an_ended_trial_has_no_card(run: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text((run / "config.yaml").read_text())
    assert_refused(here("report", tmp_path, "--card"), "no ended trial", "`fathom run`")
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_a_file_is_no_place_for_a_card(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert_refused(
        here("report", run, "--card", "--out", tmp_path / "file"), "`--out` must be a folder"
    )
    assert_refused(here("report", tmp_path, "--card"), "is not a run folder")


def test_a_link_in_place_of_the_card_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text((run / "config.yaml").read_text())
    (tmp_path / "card.md").symlink_to(run / "best.yaml")
    assert_refused(here("report", tmp_path, "--card"), "card.md must be a plain file")


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--card", "--json"], "leave out --json"), (["--out", "paper"], "add --card")],
    ids=lambda value: str(value[0]),
)
def test_options_that_a_card_does_not_go_with_are_refused(
    run: Path, options: list[str], words: str
) -> None:
    assert_refused(here("report", run, *options), words)
