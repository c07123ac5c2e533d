"""A run folder read as it grows: `search/tracking/tail.py`."""

from dataclasses import asdict, replace
from pathlib import Path

from fathom.search.record_json import to_json
from fathom.search.records import Outcome, TrialRecord
from fathom.search.report.answer_log import AnswerSeries
from fathom.search.run_folder import RunFolder, append_line
from fathom.search.tracking.tail import RunTail
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.tracked import interim, trial, write_down, write_end


def resumed(record: TrialRecord) -> dict[str, object]:
    return {"event": "resumed", **to_json(replace(record, outcome=None, ended=None, reason=""))}


def test_each_change_is_returned_once(tmp_path: Path) -> None:
    tail = RunTail(RunFolder(tmp_path))
    assert tail.changes() == {}
    write_down(tmp_path, trial(0, outcome=None, points=2))
    assert tail.changes() == {"1000000-explore-000": trial(0, outcome=None, points=2)}
    assert tail.changes() == {}
    write_end(tmp_path, trial(0))
    write_down(tmp_path, trial(1))
    assert tail.changes() == {"1000000-explore-000": trial(0), "1000000-explore-001": trial(1)}
    assert tail.changes() == {}


def test_a_trial_is_running_if_it_has_started_more_often_than_it_has_ended(
    tmp_path: Path,
) -> None:
    folder, stopped = RunFolder(tmp_path), trial(outcome=Outcome.STOPPED, points=2)
    name = stopped.spec.trial
    write_down(tmp_path, stopped)
    tail = RunTail(folder)
    assert tail.changes() == {name: stopped}
    append_line(folder.journal, resumed(stopped))
    assert tail.changes() == {name: replace(stopped, outcome=None, ended=None)}
    write_end(tmp_path, trial())
    assert tail.changes() == {name: trial()}
    assert RunTail(folder).changes() == {name: trial()}


def test_the_end_of_an_attempt_that_is_read_after_the_next_one_began_is_passed_over(
    tmp_path: Path,
) -> None:
    folder, stopped = RunFolder(tmp_path), trial(outcome=Outcome.STOPPED, points=2)
    write_down(tmp_path, replace(stopped, outcome=None, ended=None))
    tail = RunTail(folder)
    append_line(folder.journal, resumed(stopped))
    (running,) = tail.changes().values()
    assert isinstance(running, TrialRecord)
    assert running.outcome is None
    write_end(tmp_path, stopped)
    assert tail.changes() == {}


def test_a_line_counts_when_it_is_whole_and_a_damaged_one_never(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_down(tmp_path, trial())
    whole = folder.records.read_bytes()
    tail = RunTail(folder)
    folder.records.write_bytes(b"")
    tail.changes()
    for written in (whole[:-20], whole[:-1]):  # in the middle; all but the line's end
        folder.records.write_bytes(written)
        changes = tail.changes()
    assert changes == {trial().spec.trial: trial()}
    with folder.records.open("ab") as file:
        file.write(b"\n{}\nno json\n")
    assert tail.changes() == {}
    write_down(tmp_path, trial(1))
    assert tail.changes() == {trial(1).spec.trial: trial(1)}


def test_the_answers_of_a_budget_are_returned_from_the_first_on(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.state.mkdir()
    tail = RunTail(folder)
    found = [interim(100), interim(200)]
    for number, answer in enumerate(found, start=1):
        append_line(folder.answers, asdict(answer))
        assert tail.changes() == {
            "the answers of 1000000": AnswerSeries(1_000_000, tuple(found[:number]))
        }


def test_the_files_hold_the_state_of_the_search_at_every_moment(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    simulation, tail = Simulation(search), RunTail(search.folder)
    seen: dict[str, object] = {}
    for _ in range(12):
        simulation.run(events=25)
        seen |= tail.changes()
        held = {**search.live, **{record.spec.trial: record for record in search.records}}
        # The rung at which a trial stands is written with its end.
        assert {name: without_rungs(record) for name, record in held.items()} == {
            name: without_rungs(record) for name, record in seen.items()
        }


def without_rungs(record: object) -> TrialRecord:
    assert isinstance(record, TrialRecord)
    return replace(record, rungs={})
