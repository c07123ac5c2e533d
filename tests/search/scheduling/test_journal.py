"""The files of a killed run are read back completely: `search/scheduling/journal.py`."""

import pytest

from fathom.search.json_lines import read_lines
from fathom.search.record_json import from_json, to_json
from fathom.search.records import Report, with_report, without_known_points
from fathom.search.scheduling.journal import read_past
from fathom.search.scheduling.scheduler import Scheduler
from tests.support.dry_run import Simulation, scheduler, study


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Scheduler:
    """A search that was killed on its way."""
    found = scheduler(study(), tmp_path_factory.mktemp("run"))
    Simulation(found).run(events=60)
    return found


def test_a_report_adds_only_its_new_points_to_the_journal(search: Scheduler) -> None:
    reports = [line for line in read_lines(search.folder.journal) if line["event"] == "report"]
    steps = [(line["trial"], point["step"]) for line in reports for point in line["points"]]
    assert steps
    assert len(set(steps)) == len(steps)
    assert read_past(search.folder).running.records == search.live, "they are as last reported"
    record = next(record for record in search.live.values() if len(record.curve) > 1)
    again = Report(points=record.curve, setup_seconds=record.setup_seconds)
    assert with_report(record, without_known_points(record, again)).curve == record.curve


def test_a_record_has_every_key_and_one_scale_at_most(search: Scheduler) -> None:
    line = to_json(next(iter(search.live.values())))
    assert from_json({**line, "decay_scale": 4.0}).spec.scale == (1.0, 4.0)
    with pytest.raises(ValueError, match="can't both differ from 1"):
        from_json({**line, "rate_scale": 2.0, "decay_scale": 4.0})
    for name in ("decay_scale", "device", "outcome"):
        with pytest.raises(KeyError, match=name):
            from_json({key: value for key, value in line.items() if key != name})


def test_a_trial_keeps_the_name_of_each_device_that_trained_it(search: Scheduler) -> None:
    record = next(iter(search.live.values()))
    for device in ("", "L4", "L4", "H200", "L4"):
        record = with_report(record, Report(points=(), device=device))

    assert record.device == "L4 + H200"
    assert from_json(to_json(record)) == record
