"""The output of a running search: `search/report/terminal/`."""

import io
import math
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console
from rich.text import Text

from benchmarks.simulate.driver import Loss
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.conclude import conclude
from fathom.search.formatting import format_count
from fathom.search.records import Outcome
from fathom.search.report.live.answer_log import read_answers
from fathom.search.report.terminal import progress
from fathom.search.report.terminal.live_table import summary_line
from fathom.search.report.terminal.progress import Progress
from fathom.search.report.terminal.screen import Terminal, as_text
from fathom.search.report.terminal.tables import empty_table
from fathom.search.run_folder import read_records
from fathom.search.study.planning.plan import plan_study
from tests.support.dry_run import MACHINE, Simulation, best_at_four, scheduler, study
from tests.support.optima import located

EVENTS_TO_AN_INTERVAL = 190
"""Reports after which three depths are confirmed, and the search goes on."""


def watched(
    path: Path, *, terminal: bool = False, events: int = 10**6, loss: Loss = best_at_four,
    command: tuple[str, ...] | None = None, width: int = 80,
) -> tuple[Progress, str]:  # fmt: skip
    """A search with its progress display, run to its end or for a number of reports."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=width, height=25)
    config = study()
    train = config.train.model_copy(update={"command": command})
    config = config.model_copy(update={"train": train})
    search = scheduler(config, path)
    plans = plan_study(config, 256, MACHINE)
    with Progress(search, plans, console) as progress:
        simulation = Simulation(search, loss)
        for share in (0.5, 1.0):
            simulation.run(events=int(share * events))
            progress.tick()
    return progress, output.getvalue()


def drawn_at(search: Progress, width: int, height: int) -> str:
    """The display on a terminal of this size."""
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(search.view())
    return capture.get()


def test_in_a_file_a_budget_is_a_plain_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINES_SECONDS", 1e9)
    _, text = watched(tmp_path)
    assert "\x1b" not in text
    lines = [line.split() for line in text.splitlines()]
    ends = [line[1:3] for line in lines if line[2] == "done:"]
    assert ends == [["20k", "done:"], ["40k", "done:"]]
    assert len({line[1] + line[2] for line in lines}) == len(lines), "each stage once"
    assert "best depth" in text


def test_a_lost_trial_is_printed_at_once_with_the_reason(tmp_path: Path) -> None:
    _, text = watched(
        tmp_path,
        loss=lambda spec, share: math.nan if spec.shape.depth > 5 else 2.0 - share,
        events=EVENTS_TO_AN_INTERVAL,
    )
    assert " diverged: simulated" in text


def test_in_a_terminal_it_fits_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "refresh_seconds", 0.0)
    progress, text = watched(tmp_path, terminal=True, events=EVENTS_TO_AN_INTERVAL)
    assert "best depth" in text
    table = as_text(progress.view())
    assert max(map(len, table.splitlines())) <= 80
    assert "20k" in table
    assert "left" in table
    assert "…" not in table


@pytest.mark.parametrize(("width", "columns", "drawn"), [(50, 6, 1), (80, 10, 2), (120, 10, 2)])
def test_a_wider_terminal_has_more(tmp_path: Path, width: int, columns: int, drawn: int) -> None:
    search, _ = watched(tmp_path, events=EVENTS_TO_AN_INTERVAL)
    screen = drawn_at(search, width, 40)
    heads = screen.splitlines()[1].replace("best depth", "depth")
    assert len(heads.split()) == columns
    assert screen.count("└") == drawn
    assert "█" in screen, "a running trial has its losses as bars"


def test_a_low_terminal_has_the_table_without_pictures(tmp_path: Path) -> None:
    search, _ = watched(tmp_path)
    screen = drawn_at(search, 80, 12)
    assert "└" not in screen
    assert len(screen.splitlines()) <= 12


def test_a_dumb_terminal_has_the_lines_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    _, text = watched(tmp_path, terminal=True, width=200)
    assert "\x1b" not in text
    assert "20k done: best depth" in text
    assert "40k done: best depth" in text


@pytest.mark.parametrize("width", [50, 80])
def test_a_terminal_breaks_lines_between_words(
    tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plain = watched(tmp_path / "file")
    monkeypatch.setenv("TERM", "dumb")
    _, text = watched(tmp_path / "terminal", terminal=True, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert {*text.split()} >= {*plain.split()[3:]} - {*re.findall(r"\S*\d\S*", plain)}


def test_in_a_file_a_search_without_news_says_now_and_then_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
    _, text = watched(tmp_path, events=2)
    assert "trials over or paused; time left not known yet" in text


@pytest.mark.parametrize("width", [20, 50, 80, 120])
def test_a_narrow_terminal_loses_no_digit(tmp_path: Path, width: int) -> None:
    output = io.StringIO()
    table = empty_table(
        "tiny: optimal depth", ("budget", "95 %", "not ruled out", "loss", "verdict")
    )
    cells = ("1.5M", "12-24", "12-16, 20, 24", "2.9474", Text("insufficient", "red"))
    table.add_row(*cells)
    search, _ = watched(tmp_path)
    Console(file=output, width=width).print(table, search.view())
    text = output.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    live = [value for state in search._states() for value in (state.result, state.best, state.loss)]
    words = " ".join(text.split())
    for value in ("12-24", "20,", "24", "2.9474", "insufficient", "95 %", *live):
        assert value in words


def test_a_notebook_gets_one_output_of_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    display = Mock()
    monkeypatch.setitem(sys.modules, "IPython", Mock())
    monkeypatch.setitem(sys.modules, "IPython.display", Mock(display=display))
    search = scheduler(study(), tmp_path)
    console = Console(file=io.StringIO(), force_jupyter=True)
    with Progress(search, plan_study(study(), 256, MACHINE), console) as progress:
        progress._screen.draw(progress.view())
        progress._screen.draw(progress.view())
    updates = display.return_value.update.call_args_list
    assert (display.call_count, len(updates)) == (1, 2), "one output, drawn again"
    [data] = updates[-1].args
    assert "budget" in data["text/plain"]
    assert "\x1b" not in data["text/plain"]


def test_answers_are_kept_from_one_run_to_the_next(tmp_path: Path) -> None:
    progress, _ = watched(tmp_path)
    folder = progress._scheduler.folder
    kept = {series.budget: series for series in read_answers(folder)}
    last_answers = {budget: series.answers[-1] for budget, series in kept.items()}
    assert last_answers == progress.answers.latest
    for series in kept.values():
        steps = [answer.tokens for answer in series.answers]
        assert steps == sorted(set(steps))
        last = series.answers[-1]
        of_these = [r for r in read_records(folder.records) if r.spec.budget == series.budget]
        assert last.tokens == sum(record.tokens for record in of_these)
        assert last.low is not None
        assert last.high is not None
        assert last.low <= 4 <= last.high
        assert last.trials["finished"] == sum(r.outcome is Outcome.FINISHED for r in of_these)
        assert last.lowest_loss == min(point.loss for record in of_these for point in record.curve)


def test_the_last_lines_say_what_the_table_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fathom.search.report.live.answer_log.GAP_SECONDS", 1e9
    )  # one answer, then none
    shown, text = watched(tmp_path)
    conclusion = conclude(shown._scheduler.records, shown._scheduler.config)
    for optimum in conclusion.optima:
        low, high = located(optimum).interval
        [line] = [line for line in text.splitlines() if f" {format_count(optimum.budget)} " in line]
        best = f"best depth {optimum.optimal_depth} [{low}-{high}], {optimum.kind}"
        assert f"{best}, loss {optimum.loss:.4f}" in line
        assert f" {sum(optimum.trials.values())} trials;" in line, "no more are planned"
        assert "the search took" in line
    assert "so far" not in text.splitlines()[-1]
    assert "left" not in text.splitlines()[-1]


def test_an_answer_of_a_search_that_goes_on_is_called_one_so_far_and_has_no_interval(
    tmp_path: Path,
) -> None:
    shown, text = watched(tmp_path, events=EVENTS_TO_AN_INTERVAL)
    states = shown._states()
    lines = [summary_line(state) for state in states]
    assert any(state.answer and state.answer.low for state in states), "the analysis has one"
    assert "[" not in text + as_text(shown.view()) + "".join(lines)
    assert not any(state.picture and state.picture.interval for state in states)
    assert all("best so far" in line and "best depth" not in line for line in lines)
    assert "best depths so far" in as_text(shown.view())


def test_a_budget_that_ends_without_a_settled_depth_says_so_and_has_no_interval(
    tmp_path: Path,
) -> None:
    progress, _ = watched(tmp_path)
    state = progress._states()[0]
    assert state.answer
    assert state.interval, "the verdict allows one"
    unsettled = replace(state, answer=replace(state.answer, verdict=Kind.INSUFFICIENT))
    assert unsettled.interval is None
    assert "done: depth 4 is the best estimate, insufficient" in summary_line(unsettled)


def test_before_enough_depths_are_confirmed_a_depth_has_no_interval(tmp_path: Path) -> None:
    shown, _ = watched(tmp_path, events=30)
    for state in shown._states():
        assert (state.stage, state.best.isdecimal(), state.loss) == ("explore", True, "-")


def test_the_first_output_says_that_little_is_known(tmp_path: Path) -> None:
    progress, _ = watched(tmp_path, events=2)
    rows = as_text(progress.view()).splitlines()[2:4]
    assert all(" - " in row and "[" not in row for row in rows)
    assert "time left not known yet" in as_text(progress.view())


def test_a_trial_without_a_loss_for_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    shown, text = watched(tmp_path, events=1, command=("train",))
    for width in (50, 80):
        assert re.search(r": depth \d  no loss for 0 s,", drawn_at(shown, width, 40))
    line = next(line for line in text.splitlines() if "no loss since" in line)
    trial = line.split()[1].rstrip(":")
    log = shown._scheduler.folder.checkpoint(trial).with_suffix(".log")
    assert line.endswith(f"; output: {log}")
    shown._longest_wait = 1.0
    assert "no loss" not in as_text(shown.view()), "others have taken as long"


def test_a_silent_trial_is_named_again_once_its_silence_has_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, _ = watched(tmp_path, events=1)
    [trial, *_] = shown._heard
    now, told = time.monotonic(), list[str]()
    monkeypatch.setattr(shown, "print_line", told.append)
    for quiet in (50, 70, 130, 150, 290):
        shown._heard = {trial: now - quiet, "next": now - quiet + 5}
        shown.tick()
    said = f"{trial} and 1 more: no loss since"
    assert [said in line for line in told] == [True, True], "at 70 and 150 s"


def test_a_search_whose_trials_all_fail_still_shows_its_state(tmp_path: Path) -> None:
    shown, text = watched(tmp_path, loss=lambda spec, share: math.nan)
    assert shown._scheduler.done
    assert "done: best depth -, done" in text
    assert "time left not known yet" not in as_text(shown.view())
