"""The files of a run: their paths, its lock, and the records of its trials.

`records.jsonl` is the source of truth, with a line for each end of a trial: MLflow, the report and
every statistic are derived from it.
"""

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.objectives.files.durable import make_folder, put_in_place
from fathom.search.formatting import shell_command
from fathom.search.json_lines import read_as
from fathom.search.record_json import from_json
from fathom.search.records import Outcome, TrialRecord

MARKER = "seen-by-every-node"
ENDING = "search-is-ending"
UNFINISHED = ".tmp"
"""Suffix of a file that is being written, or that was left when its writer was killed."""
PARTS = ".parts"
"""Suffix of a folder beside a checkpoint, with the parts that several processes have written."""


def forget_parts(checkpoint: Path, *, but: Path | None = None) -> None:
    """Deletes the folders with parts of a checkpoint, except the folder `but`."""
    for folder in checkpoint.parent.glob(f"{checkpoint.stem}.*{PARTS}"):
        if folder != but:
            shutil.rmtree(folder, ignore_errors=True)


class RunFolderError(ValueError):
    """A folder that can't be used as a study's run folder; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class PathInside:
    """An attribute of `RunFolder`: the path of a file or folder in it."""

    relative: str

    def __get__(self, folder: "RunFolder", _: type) -> Path:
        return folder.path / self.relative


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The run folder of one study, `runs/NAME`."""

    path: Path
    """Path of the folder; `.` and `..` become absolute, so that the folder of all runs is its
    parent."""
    config = PathInside("config.yaml")
    """The study file with every default filled in."""
    fingerprint = PathInside("fingerprint.json")
    """Digests of the study's settings and data, as they were at the first start."""
    step_times = PathInside("step_times.json")
    """Seconds of a training step of each shape, as the first start measured them; only in studies
    with `train_seconds`."""
    records = PathInside("records.jsonl")
    """Records of every trial that has ended: the source of truth."""
    token_law = PathInside("token_law.json")
    """The law over parameters and tokens of a study with several horizons."""
    best = PathInside("best.yaml")
    """The best shape of every budget."""
    latency = PathInside("latency.json")
    """Time that the shapes of each depth take to answer."""
    report = PathInside("report.html")
    """The report for people."""
    card = PathInside("card.md")
    """The answer on one page of Markdown."""
    card_picture = PathInside("card.png")
    """The picture that `card.md` shows."""
    figures = PathInside("figures")
    """The report's figures for papers."""
    state = PathInside("state")
    """Files that resuming needs; of no use afterwards."""
    journal = PathInside("state/journal.jsonl")
    """Reports of the trials that are running."""
    answers = PathInside("state/answers.jsonl")
    """Interim answers of each budget, in the order in which they were found."""
    tracked = PathInside("state/tracked")
    """Note of what MLflow has: the id of the study's run, and the bytes of records, journal and
    answers whose trials have been written to it."""
    optuna = PathInside("state/optuna.log")
    """Optuna's studies, one for each budget: `optuna-dashboard` opens the file as it is."""
    seconds = PathInside("state/seconds")
    """Seconds that all runs on the folder have taken together."""
    device_seconds = PathInside("state/device_seconds")
    """Seconds for which trials of all runs on the folder have held a GPU, or a core."""
    time_left = PathInside("state/time_left.json")
    """The time left, as the search last estimated it."""
    auto_gpus = PathInside("state/auto_gpus")
    """Number of GPUs per trial that `gpus_per_trial: auto` chose when the search began: 0 or 1."""
    ray = PathInside("state/ray")
    """Ray Tune's own files."""
    marker = PathInside(f"state/checkpoints/{MARKER}")
    """A file beside the checkpoints; a node that sees it sees the checkpoints too."""
    ending = PathInside(f"state/checkpoints/{ENDING}")
    """A file beside the checkpoints that tells running trials to save and end."""

    def __post_init__(self) -> None:
        """Makes the path absolute if its parent is not the folder of all runs."""
        if self.path.name in ("", ".."):
            object.__setattr__(self, "path", Path(os.path.abspath(self.path)))

    @property
    def resume_command(self) -> str:
        """The command that resumes the search in this folder."""
        runs = self.path.parent
        if RunFolder(runs).is_run:  # of a study of several horizons
            return RunFolder(runs).resume_command
        where = [] if runs == Path("runs") else ["--runs", runs]
        return shell_command("fathom", "run", self.config, *where)

    @property
    def is_run(self) -> bool:
        """True if a `fathom run` has used the folder; it may hold the folders of horizons."""
        return self.config.exists() and self.state.exists()

    @property
    def began(self) -> bool:
        """True if a search has begun here."""
        return self.records.exists() or self.journal.exists()

    def check_config(self) -> None:
        """Checks that the study file is not lost if a search has begun here.

        Raises:
            RunFolderError: if it is lost; the message says which command writes it again.
        """
        if self.began and is_lost(self.config):
            again = shell_command("fathom", "run", "STUDY.yaml", "--runs", self.path.parent)
            raise RunFolderError(
                f"{self.config} is lost: `{again}` writes it again, with the study file that began "
                "this search"
            )

    def results(self) -> list[Path]:
        """The result files that exist: best shapes, report, card and figures."""
        card = self.card, self.card_picture
        files = (self.best, self.report, *card, *sorted(self.figures.glob("*")))
        return [path for path in files if path.exists()]

    def checkpoint(self, trial: str) -> Path:
        """Path of a trial's last checkpoint, of about 12 bytes a parameter.

        A stopped trial keeps its checkpoint until the audit of its budget has passed, because
        `--extend` resumes from it.
        """
        return self.state / "checkpoints" / f"{trial}.pt"

    def has_checkpoint(self, trial: str) -> bool:
        """True if a trial can be resumed from a checkpoint."""
        path = self.checkpoint(trial)
        return path.exists() or path.with_suffix("").is_dir()

    def forget_checkpoint(self, trial: str) -> None:
        """Deletes a trial's last checkpoint and the files that its command keeps, if there are
        any."""
        path = self.checkpoint(trial)
        path.unlink(missing_ok=True)
        forget_parts(path)
        path.with_suffix(".jsonl").unlink(missing_ok=True)
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)

    def check_files(self) -> None:
        """Checks that each file and folder of the run is a plain one.

        Through a link, files elsewhere would be written or deleted; reading a pipe would never end.

        Raises:
            RunFolderError: names the first that is a link, a pipe, or a folder in place of a file
                or the reverse, or the locks that are one file.
        """
        paths = {
            value.__get__(self, RunFolder)
            for value in vars(RunFolder).values()
            if isinstance(value, PathInside)
        }
        tables = self.path / "tables"
        folders = {self.state, self.marker.parent, self.ray, self.figures, tables}
        locks = self.state / "lock", self.state / "report.lock"
        files = paths - folders | {*locks}
        files |= {*tables.glob("*.csv"), *self.figures.glob("*.*")}
        for path in sorted(files | folders):
            kind, is_kind = ("folder", path.is_dir) if path in folders else ("file", path.is_file)
            if os.path.lexists(path) and (path.is_symlink() or not is_kind()):
                raise RunFolderError(
                    f"{path} must be a plain {kind} of the run itself, but is a link or something "
                    "else; move it away (the run folder as a whole may be a link)"
                )
        if all(lock.exists() for lock in locks) and locks[0].samefile(locks[1]):
            lock, report = locks
            raise RunFolderError(
                f"{lock} and {report} must be two files, but are two names of one file, so that "
                f"a report would wait for ever; delete {report}"
            )

    def create(self) -> None:
        """Makes the folders of the run."""
        make_folder(self.marker.parent)
        if is_lost(self.marker):
            write_atomically(self.marker, uuid.uuid4().hex)


def is_lost(path: Path) -> bool:
    """True if a file is not there, or is empty or full of zeros, as power cuts leave files."""
    try:
        with path.open("rb") as file:
            return not any(part.strip(b"\0") for part in iter(lambda: file.read(2**16), b""))
    except (FileNotFoundError, NotADirectoryError):
        return True


def is_in_use(folder: RunFolder) -> bool:
    """True while another process holds the lock of the run folder."""
    try:
        with (folder.state / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none yet, or it can't be read
        return False
    return False


class InUseError(RunFolderError):
    """A run folder that another process is searching or reporting."""


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Context that holds the lock of a run folder, so that no other process searches it.

    Folders made for the lock are removed again if nothing else was written to them.

    Raises:
        InUseError: when another process holds the lock.
    """
    path = folder.state / "lock"
    made = [place for place in (path.parent, *path.parent.parents) if not place.exists()]
    make_folder(path.parent)
    with path.open("a") as lock:  # which changes no file, whatever other name it may have
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(
                f"{folder.path} is in use by another `fathom`; wait until that ends"
            ) from None
        try:
            yield
        finally:
            if made and not folder.config.exists():
                path.unlink(missing_ok=True)
                for place in made:
                    with suppress(OSError):  # something is in it
                        place.rmdir()


def is_named_store(uri: str | None) -> bool:
    """True if the user names MLflow's store, by the study's `tracking.uri` or the environment."""
    return bool(uri or os.environ.get("MLFLOW_TRACKING_URI"))


def default_tracking_uri(runs: Path) -> str:
    """MLflow's address for a study that names none: from the environment, else a file in `runs`."""
    store = _shared_by(runs).absolute() / "mlflow.db"
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{store}"


def token_cache(runs: Path) -> Path:
    """The folder with texts cut into tokens, shared by the runs in `runs`; it may be deleted."""
    return _shared_by(runs).absolute() / ".tokens"


def _shared_by(runs: Path) -> Path:
    """The folder that the runs in `runs` share: `runs` itself, or the folder above if `runs` is the
    run folder of a study, whose horizons are the runs."""
    return runs.parent if RunFolder(runs).is_run else runs


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file at once: readers, also after a crash or power cut, find the old text or the
    new."""
    temporary = path.with_name(path.name + UNFINISHED)
    try:
        temporary.unlink(missing_ok=True)  # not written through, should it be a link
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        put_in_place(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        error.filename = str(path)
        raise


def read_records(path: Path) -> list[TrialRecord]:
    """The trials of a run that have ended, in the order in which they ended.

    A trial that was stopped and resumed has a line for each attempt; its last line counts.
    """
    return last_attempts(read_attempts(path))


def read_attempts(
    path: Path, check: Callable[[TrialRecord], TrialRecord] = lambda record: record
) -> list[TrialRecord]:
    """Records of every end of a trial, in order; a trial that was stopped and resumed has several.

    Raises:
        DamagedFileError: at a line that can't be read, that `check` refuses, or that no search can
            have written after those before it.
    """
    last: dict[str, TrialRecord] = {}

    def read(line: dict[str, Any]) -> TrialRecord:
        record = check(from_json(line))
        if before := last.get(record.spec.trial):
            _check_goes_on(before, record)
        last[record.spec.trial] = record
        return record

    return list(read_as(path, read))


def _check_goes_on(before: TrialRecord, record: TrialRecord) -> None:
    """Refuses an attempt that does not continue the one before, such as a line that is repeated."""
    if before.outcome is not Outcome.STOPPED:
        raise ValueError(f"{record.spec.trial} had ended as `{before.outcome}` already")
    known, now = ([(p.step, p.loss) for p in each.curve] for each in (before, record))
    is_longer = len(now) > len(known) or record.outcome not in (Outcome.STOPPED, Outcome.FINISHED)
    if now[: len(known)] != known or not is_longer or record.spec != before.spec:
        raise ValueError(f"{record.spec.trial} does not continue where it had stopped")


def last_attempts(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """The last record of every trial, in the order of these records."""
    last: dict[str, TrialRecord] = {}
    for record in records:
        last.pop(record.spec.trial, None)
        last[record.spec.trial] = record
    return list(last.values())
