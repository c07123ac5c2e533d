"""Records of another study are refused with file and line: `search/study/own_records.py`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fathom.search.conclusion.conclude import conclude
from fathom.search.record_json import DamagedFileError
from fathom.search.run_folder import RunFolder
from fathom.search.study.fingerprint import fingerprint_of, write_fingerprint
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.own_records import read_records
from tests.support.dry_run import Simulation, scheduler, study
from tests.support.logs import lines_of, write_sealed

Line = dict[str, Any]


def searched(path: Path, config: StudyConfig) -> RunFolder:
    """The folder of a whole simulated search."""
    folder = RunFolder(path)
    folder.create()
    write_fingerprint(folder, fingerprint_of(config, data="a text"))
    Simulation(scheduler(config, path)).run()
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run folder of the study that all tests here compare with."""
    return searched(tmp_path_factory.mktemp("kept"), study())


def copy_of(kept: RunFolder, path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.records.write_bytes(kept.records.read_bytes())
    folder.fingerprint.write_bytes(kept.fingerprint.read_bytes())
    return folder


def forge(folder: RunFolder, change: Callable[[Line], object], which: int = 0) -> int:
    """Changes the record of a trial that finished; returns its line number."""
    lines = lines_of(folder.records)
    at = [at for at, line in enumerate(lines) if line["outcome"] == "finished"][which]
    change(lines[at])
    write_sealed(folder.records, lines)
    return at + 1


def test_the_records_of_a_study_are_its_own(kept: RunFolder) -> None:
    records = read_records(kept, study())
    assert {record.spec.fingerprint for record in records} == {
        fingerprint_of(study(), data="a text").study
    }


@pytest.mark.parametrize(
    "change",
    [
        {"budgets": (20_000, 60_000)},
        {"tokens": 128_000},
        {"study": "another"},
        {"seed": 3},  # of which no other field of a record tells
    ],
)
def test_records_of_another_study_are_refused_alone_and_among_its_own(
    kept: RunFolder, tmp_path: Path, change: Line
) -> None:
    other = searched(tmp_path / "other", study(**change))
    folder = copy_of(kept, tmp_path)
    before, foreign = lines_of(folder.records), lines_of(other.records)
    for lines, line in ((foreign, r"\d+"), (before + foreign, len(before) + 1)):
        write_sealed(folder.records, lines)
        with pytest.raises(DamagedFileError, match=rf"records\.jsonl:{line}: it is of another"):
            read_records(folder, study())


def test_two_studies_together_are_refused_without_a_fingerprint_too(
    kept: RunFolder, tmp_path: Path
) -> None:
    other = searched(tmp_path / "other", study(seed=3))
    folder = copy_of(kept, tmp_path)
    folder.fingerprint.unlink()
    assert read_records(folder, study())
    write_sealed(folder.records, [*lines_of(folder.records), *lines_of(other.records)])
    with pytest.raises(DamagedFileError, match="another study, with fingerprint"):
        read_records(folder, study())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"horizon_tokens": 1_000_000}, "horizon_tokens 1000000 instead of 64000"),
        ({"flops_to_spend": 1e12}, "shared_spend 1e+12 FLOPs instead of None"),
        ({"flops_to_spend": "1e12"}, "`flops_to_spend` can't be '1e12'"),
        ({"flops_to_spend": 1e12, "seconds_to_spend": 9.0}, "`seconds_to_spend` can't be '9.0'"),
        ({"count": "total"}, "count total instead of non_embedding"),
        ({"budget": 30_000}, "budget 30000 instead of [20000, 40000]"),
        ({"learning_rate": 1.0}, "learning_rate 1.0 instead of 0.00"),
        ({"fingerprint": "0"}, "fingerprint 0 instead of "),
        ({"reason": "\ud800"}, "'\\ud800' has characters that can't be printed"),
        ({"reason": "\x1b[2J"}, "'\\x1b[2J' has characters that can't be printed"),
        ({"started": 2.0**39}, "`started` can't be"),
        ({"setup_seconds": 1e160}, "1e+160 is larger than any number"),
        # The last point of its curve.
        ({"curve": {"loss": 1e6}}, "can't have the loss 1e+06, far above 5.545"),
        ({"curve": {"loss": float("nan")}}, "`loss` can't be nan before a trial has diverged"),
        ({"curve": {"loss": -5.0}}, "a cross entropy can't be -5"),
        ({"curve": {"loss": 0.0}}, "a cross entropy can't be 0"),
        ({"rungs": {"16000": -1.0}}, "a cross entropy can't be -1"),
        ({"dewice": "a GPU"}, "`dewice` is unknown to this version"),
        ({"curve": {"step": 10**6}}, "can't have 64000 tokens at step 1000000"),
        ({"curve": {"metrics": {"exact_match/\x1b]0;owned\x07": 1.0}}}, "can't be printed"),
    ],
)
def test_a_record_that_the_study_cannot_have_is_refused(
    kept: RunFolder, tmp_path: Path, change: Line, problem: str
) -> None:
    folder = copy_of(kept, tmp_path)

    def forged(line: Line) -> None:
        line["curve"][-1].update(change.get("curve", {}))
        line.update({key: value for key, value in change.items() if key != "curve"})

    at = forge(folder, forged)
    with pytest.raises(DamagedFileError, match=re.escape(problem)) as refusal:
        read_records(folder, study())
    assert str(refusal.value).startswith(f"{folder.records}:{at}: ")


@pytest.mark.parametrize("which", [0, -1, -4, -8, -12, -16])
def test_the_worst_loss_of_a_finished_trial_leaves_no_answer_below_what_was_measured(
    kept: RunFolder, tmp_path: Path, which: int
) -> None:
    folder = copy_of(kept, tmp_path)
    forge(folder, lambda line: line["curve"][-1].update(loss=6.5), which)
    records = read_records(folder, study())
    lowest = min(record.loss for record in records if record.loss is not None)
    for optimum in conclude(records, study()).optima:
        assert optimum.loss is not None
        assert optimum.loss > lowest - 0.1
