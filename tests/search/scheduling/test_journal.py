"""What a killed run left is read back whole: `search/scheduling/journal.py`."""

from pathlib import Path

from fathom.search.record_json import to_json
from fathom.search.records import Report, advanced, news
from fathom.search.run_folder import RunFolder, append_line, read_lines
from fathom.search.scheduling.journal import read_past
from tests.support.dry_run import Simulation, scheduler, study


def test_a_report_adds_only_its_news_to_the_journal(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run(events=60)
    reports = [line for line in read_lines(search.folder.journal) if line["event"] == "report"]
    steps = [(line["trial"], point["step"]) for line in reports for point in line["curve"]]
    assert steps
    assert len(set(steps)) == len(steps)


def test_trials_under_way_come_back_as_last_reported(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run(events=60)
    past = read_past(search.folder)
    found = {r.spec.trial: r for records in past.under_way.values() for r in records}
    assert found == search.live


def test_a_journal_of_whole_records_is_read_as_well(tmp_path: Path) -> None:
    """As an earlier version wrote it."""
    search = scheduler(study(), tmp_path / "now")
    Simulation(search).run(events=60)
    record = next(record for record in search.live.values() if record.curve)
    before = RunFolder(tmp_path / "before")
    before.create()
    for event in ("started", "report"):
        append_line(before.journal, {"event": event, **to_json(record)})
    assert read_past(before).under_way == {record.spec.budget: [record]}


def test_news_told_twice_is_taken_in_once(tmp_path: Path) -> None:
    search = scheduler(study(), tmp_path)
    Simulation(search).run(events=60)
    record = next(record for record in search.live.values() if len(record.curve) > 1)
    again = Report(points=record.curve, setup_seconds=record.setup_seconds)
    assert advanced(record, news(record, again)).curve == record.curve
