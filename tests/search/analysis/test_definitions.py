"""One answer in six places: terminal, report, MLflow, CSV, `status` and JSON."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fathom.search.analysis.verdict import Kind
from fathom.search.commands.run_status import print_status, status_of, status_reply
from fathom.search.conclusion.conclude import Conclusion, conclude
from fathom.search.contract.studies import study_reply
from fathom.search.formatting import format_count, ranges
from fathom.search.report.terminal.answer_tables import optimum_cells
from fathom.search.report.text import depth_text, interval
from fathom.search.report.writer import write_report
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.config import dump
from fathom.search.tracking.pages import budget_tags
from tests.support.contract import printed_values
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.reporting import printed, rows, visible


@pytest.fixture(params=["whole", "unfinished", "insufficient"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Scheduler:
    """A run that has ended, one that was stopped on its way, and one with too few trials."""
    config = study(study=request.param)
    if request.param == "insufficient":
        confirm = config.confirm.model_copy(update={"depths": 2})
        config = config.model_copy(update={"trials": 2, "confirm": confirm})
    search = scheduler(config, tmp_path)
    search.folder.config.write_text(dump(search.config))
    if request.param == "unfinished":
        Simulation(search).run(events=40)
    else:
        Simulation(search).run()
    return search


def places(run: Scheduler, conclusion: Conclusion) -> Iterator[dict[str, dict[str, str]]]:
    """Yields for each budget: place -> name of a fact -> its text there."""
    status = printed(partial(print_status, status_of(run.folder.path)))
    now = printed_values(status_reply([status_of(run.folder.path)]))
    states = {answer["question"]["budget"]: answer for answer in now["answers"]}
    unfinished = [budget for budget, search in run.budgets.items() if not search.done]
    csv = {row["budget"]: row for row in rows(run.folder.path, "optima")}
    plain = printed_values(study_reply("report", conclusion, run.folder.path))["answers"]
    for optimum, values in zip(conclusion.optima, _with_trials(plain), strict=True):
        size, row = format_count(optimum.budget), csv[str(optimum.budget)]
        cells, tags = optimum_cells(optimum), budget_tags(optimum, ())
        state = states[optimum.budget]
        [line] = re.findall(rf"^ *{size} .*$", status, re.MULTILINE)
        yield {
            "terminal": {
                "depth": cells["depth"],
                "verdict": re.sub(r"\[.*?\]", "", cells["verdict"]),
                "not ruled out": cells["not ruled out"],
                "stopped": _stopped(cells["trials"]),
            },
            "MLflow": {
                "depth": tags["optimal_depth"],
                "verdict": tags["verdict"],
                "not ruled out": tags["plateau"],
                "interval": tags["interval"],
            },
            "CSV": {
                "depth": row["optimal_depth"],
                "verdict": row["verdict"],
                "not ruled out": ranges([int(depth) for depth in row["plateau"].split()]),
                "stopped": row["trials_stopped"],
            },
            "JSON": {
                "depth": str(values["answer"]["depth"] if values["answer"] else ""),
                "verdict": values["verdict"]["kind"],
                "not ruled out": ranges(
                    (values["answer"] or {"not_ruled_out": []})["not_ruled_out"]
                ),
                "stopped": str(values["evidence"]["trials"]["stopped"]),
            },
            "status": {
                "depth": line.split()[-2].replace("-", ""),
                **({} if optimum.budget in unfinished else {"verdict": line.split()[-1]}),
            },
            "status --json": {
                "depth": str(state["answer"]["depth"] if state["answer"] else ""),
                "verdict": state["verdict"]["kind"],
            },
        }


def _with_trials(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [answer for answer in answers if answer["evidence"]]


def _stopped(trials: str) -> str:
    found = re.search(r"(\d+) stopped", trials)
    return found[1] if found else "0"


def test_six_places_tell_one_answer(run: Scheduler) -> None:
    conclusion = conclude(
        run.records,
        run.config,
        unfinished=[budget for budget, search in run.budgets.items() if not search.done],
    )
    page = visible(write_report(conclusion, run.folder.path).read_text(encoding="utf-8"))
    for optimum, said in zip(conclusion.optima, places(run, conclusion), strict=True):
        for fact in ("depth", "verdict", "not ruled out", "stopped", "interval"):
            told = {place: facts[fact] for place, facts in said.items() if fact in facts}
            assert len(set(told.values())) == 1, (fact, told)
        depth = said["JSON"]["depth"]
        shown = f"depth {depth}{interval(optimum, ' [', ']')}" if depth else depth_text(optimum)
        assert shown in page
        assert optimum.kind.value in page
    kinds = {optimum.kind for optimum in conclusion.optima}
    assert run.config.study != "insufficient" or kinds == {Kind.INSUFFICIENT}
