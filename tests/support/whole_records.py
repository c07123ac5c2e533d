"""Whole records of a run, without the clock: what a search that was disturbed must have as well."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace

from fathom.search.records import CurvePoint, Outcome, TrialRecord
from fathom.search.run_folder import RunFolder, read_attempts

CLOCK = ("generation_seconds", "compile_seconds", "flop_utilisation")
"""Metrics of a trial that tell of the machine."""


def whole_records(folder: RunFolder) -> dict[str, TrialRecord]:
    """Trial and number of the attempt -> its record without the clock, of a run in which no trial
    finished twice: an attempt that a later one replaced is compared as well."""
    attempts = read_attempts(folder.records)
    ends = Counter(r.spec.trial for r in attempts if r.outcome is not Outcome.STOPPED)
    assert not [trial for trial, times in ends.items() if times > 1]
    times, found = Counter[str](), dict[str, TrialRecord]()
    for record in attempts:
        times[record.spec.trial] += 1
        found[f"{record.spec.trial}, attempt {times[record.spec.trial]}"] = _timeless_record(record)
    return dict(sorted(found.items()))


def differences(found: Mapping[str, TrialRecord], expected: Mapping[str, TrialRecord]) -> list[str]:
    """Attempt, field and both values of everything in which records differ."""
    told = [f"{trial} is there once" for trial in sorted(found.keys() ^ expected.keys())]
    for trial in sorted(found.keys() & expected.keys()):
        for field in fields(TrialRecord):
            now, then = (getattr(records[trial], field.name) for records in (found, expected))
            told += [] if now == then else [f"{trial}, {field.name}: {now} instead of {then}"]
    return told


def _timeless_record(record: TrialRecord) -> TrialRecord:
    """The record without times and the study's fingerprint."""
    return replace(
        record,
        spec=replace(record.spec, fingerprint=""),
        started=0.0,
        ended=0.0,
        setup_seconds=0.0,
        curve=tuple(map(_timeless, record.curve)),
    )


def _timeless(point: CurvePoint) -> CurvePoint:
    metrics = {name: value for name, value in point.metrics.items() if name not in CLOCK}
    return replace(point, time=0.0, train_seconds=0.0, metrics=metrics)
