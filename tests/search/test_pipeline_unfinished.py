"""Reports of a run whose search has not ended: they say so, and nothing that resuming cures."""

import io
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from fathom.objectives.contract import Objective
from fathom.search import pipeline
from fathom.search.analysis.answer.verdict import Kind
from fathom.search.conclusion.conclude import Conclusion, conclude_run
from fathom.search.export.best import best_yaml
from fathom.search.json_lines import append_line
from fathom.search.report.pages.page import page
from fathom.search.report.terminal.answer_tables import print_answers
from fathom.search.run_folder import RunFolder, locked, read_records
from fathom.search.scheduling.journal import read_run
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.file.study_file import load
from fathom.search.study.preflight import check_ready
from fathom.search.training.saving import trial_log
from tests.support.alone import alone, run_alone
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.in_process import search_in_process
from tests.support.reporting import visible
from tests.support.toy import CPU


def concluded(search: Scheduler) -> Conclusion:
    return conclude_run(search.folder, search.config, read_run(search.folder, search.config))


def interrupted(path: Path, events: int) -> Scheduler:
    search = scheduler(study(), path)
    Simulation(search).run(events=events)
    assert not search.done
    return search


def test_an_interrupted_search_is_called_unfinished_with_the_command_that_resumes_it(
    tmp_path: Path,
) -> None:
    search = interrupted(tmp_path, 60)
    found = concluded(search)
    command = f"fathom run {search.folder.config} --runs {search.folder.path.parent}"
    assert {optimum.kind for optimum in found.optima} == {Kind.UNFINISHED}
    terminal = Console(file=io.StringIO(), width=80)
    print_answers(found, terminal)
    assert isinstance(terminal.file, io.StringIO)
    for text in (terminal.file.getvalue(), visible(page(found, ()))):
        assert "unfinished" in text
        assert command in " ".join(text.split())
        assert not any(remedy in text for remedy in ("confirm.", "space.depth", "raise `"))
    assert all(
        optimum["verdict"] == "unfinished" for optimum in yaml.safe_load(best_yaml(found))["best"]
    )
    assert not found.laws


def test_a_run_interrupted_before_any_answer_says_that_it_is_unfinished(tmp_path: Path) -> None:
    found = concluded(interrupted(tmp_path, 1))
    assert "Unfinished: the search of 20k, 40k has not ended" in visible(page(found, ()))
    terminal = Console(file=io.StringIO(), width=80)
    print_answers(found, terminal)
    assert isinstance(terminal.file, io.StringIO)
    assert terminal.file.getvalue().startswith("Unfinished: "), "no table without a row"


def test_a_search_that_ended_is_not_called_unfinished(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run()
    assert search.done
    found = concluded(search)
    assert found.unfinished == ()
    assert Kind.UNFINISHED not in {optimum.kind for optimum in found.optima}


def test_a_search_that_is_extended_is_unfinished_until_it_ends_again(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run()
    event = {"event": "extend", "budget": 20_000, "first_rung": 1}
    append_line(search.folder.journal, event)
    assert concluded(search).unfinished == (20_000,)


STUDY = """
study: cut
objective: {name: "tests.support.counted:Counted", context: 6, steps: STEPS}
budgets: [4k]
tokens: 4800
space: {depth: [1, 3], n_heads: 2}
sampler: ladder
confirm: {depths: 2, seeds: 1, rates: [1]}
train: {batch_size: 4, evaluations: 5}
resources: {gpus_per_trial: 0}
"""


@pytest.mark.parametrize("trials", [0, 2])
def test_a_search_that_ray_ends_before_its_trials_pauses_and_the_same_command_ends_it_whole(
    tmp_path: Path, trials: int
) -> None:
    file, runs = tmp_path / "study.yaml", tmp_path / "runs"
    file.write_text(STUDY.replace("STEPS", str(tmp_path / "steps")))
    folder = RunFolder(runs / "cut")

    def some(search: Scheduler, objective: Objective, *_: object) -> None:
        ended = trials
        with suppress(KeyboardInterrupt):
            search_in_process(search, objective.to(CPU), lambda: len(search.records) >= ended)
        search.restart(next(iter(search.live)))  # as where Ray loses the worker

    ready = check_ready(load(file), runs)
    with (
        alone() as steps,
        locked(ready.folder),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(pipeline, "run_trials", some)
        patch.setattr(trial_log, "REPORT_SECONDS", 0.0)  # each evaluation, on a fast machine too
        with pytest.raises(
            OSError, match=r"planned trials have not ended; .* go on with"
        ) as paused:
            pipeline.run_study(ready, steps)
    assert folder.resume_command in str(paused.value)
    assert not folder.best.exists()

    run_alone(file, runs)
    (search,) = conclude_run(folder, ready.config, read_run(folder, ready.config)).optima
    assert search.kind is not Kind.UNFINISHED
    assert sum(search.trials.values()) == len(read_records(folder.records)) > trials


def test_records_without_a_journal_are_taken_as_they_are(tmp_path: Path) -> None:
    search = interrupted(tmp_path, 60)
    search.folder.journal.unlink()
    assert concluded(search).unfinished == ()


def test_a_run_folder_among_the_default_runs_is_resumed_by_the_shorter_command() -> None:
    assert RunFolder(Path("runs/a b")).resume_command == "fathom run 'runs/a b/config.yaml'"
