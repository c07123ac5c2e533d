"""`fathom run` for a study of several horizons."""

import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

from rich.console import Console

from fathom.search.cluster.session.ray_session import start_ray
from fathom.search.commands.horizons_report import print_answers
from fathom.search.commands.output import (
    command_again,
    exit_by_verdict,
    print_reply,
)
from fathom.search.contract.horizons import horizons_reply
from fathom.search.horizons.answers import answers_from
from fathom.search.horizons.search import ReadyHorizons, check_horizons_ready, search_horizons
from fathom.search.report.terminal.answer_tables import print_conclusion
from fathom.search.report.terminal.steps import Steps
from fathom.search.report.terminal.tables import print_whole
from fathom.search.run_folder import locked
from fathom.search.scheduling.extend import waits, warnings
from fathom.search.study.keys.config import StudyConfig, placed
from fathom.search.study.preflight import Cap
from fathom.search.tracking.publishing import RunResult


def prepare_horizons(
    config: StudyConfig, study: Path, overrides: list[str] | None, runs: Path, *, trust: bool
) -> ReadyHorizons:
    """The study of a file with several horizons, each of them checked."""
    with placed(study, overrides):
        return check_horizons_ready(config, runs, trust=trust)


def run_horizons(
    ready: ReadyHorizons, console: Console, *, extend: bool, max_hours: float | None,
    cap: Cap | None, as_json: bool, exit_verdict: bool,
) -> None:  # fmt: skip
    """Searches every horizon of a checked study and prints the answer of each; exits with status 1
    if no trial of one has finished, else by the verdict if that is asked for."""
    found = list[RunResult]()
    with locked(ready.folder), Steps(console) as steps:
        steps.begin(f"Study {ready.config.study}")
        if extend or not all(study.has_report for study in ready.studies):
            steps.begin("starting Ray")
            with ThreadPoolExecutor(1) as aside:  # torch takes seconds to import, Ray to start
                aside.submit(import_module, "torch")
                start_ray(ready.config.resources, command_again(), ready.config.own_code)
        for result in search_horizons(ready, steps, extended=extend, max_hours=max_hours, cap=cap):
            found.append(result)
            print_conclusion(result.conclusion, console)
            for line in waits(result.conclusion.audits):
                console.print(line, highlight=False)
            for line in warnings(result.conclusion.audits, command_again()):
                console.print(line, style="yellow", highlight=False)
            print_whole(f"Report      {result.folder.report}", console)
    pairs = zip(ready.horizons, (result.conclusion for result in found), strict=False)
    answers = answers_from(ready.folder, ready.config, pairs)
    print_answers(answers, console)
    if as_json:
        print_reply(horizons_reply("run", answers))
    for result in found:
        conclusion = result.conclusion
        answered = any(optimum.lowest_depth for optimum in conclusion.optima)
        if not (answered or conclusion.unfinished):
            print(f"fathom: no trial finished; {result.folder.records} says why", file=sys.stderr)
            sys.exit(1)
    if exit_verdict:
        exit_by_verdict(horizons_reply("run", answers))
