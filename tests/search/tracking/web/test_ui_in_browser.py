"""MLflow's page in a browser: the best depth in two clicks, its figures, its charts, no error."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from fathom.search.report.terminal.progress import Progress
from fathom.search.study.file.study_file import dump
from fathom.search.study.planning.plan import plan_study
from fathom.search.tracking.writing.publishing import report_study
from tests.support.browser import Browser, browser
from tests.support.dry_run import MACHINE, Simulation, scheduler, study
from tests.support.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.drill]
STUDY = "simulated"
SHOWN = ("best_depth", "interval", "verdict", "loss", "identified")
OWN_ERRORS = (
    # MLflow asks for the user at every page, and a server without logins has none.
    "/ajax-api/2.0/mlflow/users/current",
    # Of Chromium, when a chart has changed its size while it was drawn; it is drawn again.
    "ResizeObserver loop",
)
"""What MLflow's page says to the console of an empty store as well."""


@dataclass(frozen=True)
class Page:
    """The addresses that `fathom ui` prints (front page, runs of the study), and the best depth
    at 40k that the search found."""

    front: str
    runs: str
    depth: int | None


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A study as a search leaves it, served by `fathom ui`."""
    runs = tmp_path_factory.mktemp("page")
    config = study()
    search = scheduler(config, runs / STUDY)
    plans, console = plan_study(config, 256, MACHINE), Console(quiet=True)
    with Progress(search, plans, console) as progress:
        simulation = Simulation(search)
        while not search.done:
            simulation.run(events=20)
            progress._update_answers(all_budgets=True)
    search.folder.config.write_text(dump(config))
    largest = report_study(search.folder.path).conclusions[0].optima[-1]
    port = free_port()
    command = [sys.executable, "-m", "search", "ui", "--runs", str(runs), "--port", str(port)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        printed: dict[str, str] = {}
        while "all of MLflow" not in printed:
            name, _, address = server.stdout.readline().partition(": ")
            printed[name] = address.strip().partition(" ")[0]
        yield Page(printed["all of MLflow"], printed[STUDY], largest.optimal_depth)
        server.send_signal(signal.SIGINT)  # as Ctrl-C: its own processes end with it


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path / "profile") as pages:
        yield pages
    errors = [error for error in pages.errors if not any(known in error for known in OWN_ERRORS)]
    assert errors == []


def test_the_best_depth_is_two_clicks_from_the_front_page(page: Page, chromium: Browser) -> None:
    chromium.open(page.front)
    chromium.follow(STUDY, to="/experiments/")
    chromium.wait_for(f"document.body?.innerText.includes('40k → depth {page.depth}')")
    chromium.follow("table, figures and YAML", to="/runs/")
    chromium.wait_for(f"document.body?.innerText.includes('count: depth {page.depth}')")
    assert "workflowType=machine_learning" in chromium.ask("location.href")
    chromium.wait_for("[...document.images].some((one) => one.naturalWidth > 500)")


def test_the_printed_address_has_the_answers_as_columns(page: Page, chromium: Browser) -> None:
    chromium.open(page.runs)
    chromium.wait_for(f"document.body?.innerText.includes('40k → depth {page.depth}')")
    chromium.wait_for("document.body?.innerText.includes('2 matching runs')")
    for shown in SHOWN:
        chromium.wait_for(f"document.body?.innerText.includes({shown!r})")


def test_loss_against_depth_is_two_clicks_from_the_front_page(
    page: Page, chromium: Browser
) -> None:
    chromium.open(page.runs)
    chromium.follow("trials side by side", to="fathom-trials")
    chromium.wait_for("document.querySelectorAll('.scatterlayer .point').length > 20")
    text = chromium.text()
    assert "Group by: budget" in text
    assert "final_loss" in text
