"""What a run keeps, and where."""

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

MARKER = "seen-by-every-node"
ENDING = "search-is-ending"
UNFINISHED = ".tmp"
"""How the name of a file ends that is being written, or was when its writer was killed."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one study, `runs/NAME`."""

    path: Path

    @property
    def config(self) -> Path:
        """The study, every default filled in."""
        return self.path / "config.yaml"

    @property
    def records(self) -> Path:
        """Every trial that has ended: the source of truth."""
        return self.path / "records.jsonl"

    @property
    def best(self) -> Path:
        """The best shape of every budget."""
        return self.path / "best.yaml"

    @property
    def report(self) -> Path:
        """The report for people."""
        return self.path / "report.html"

    @property
    def figures(self) -> Path:
        """The report's figures for papers."""
        return self.path / "figures"

    @property
    def state(self) -> Path:
        """What resuming needs; of no use afterwards."""
        return self.path / "state"

    @property
    def journal(self) -> Path:
        """What trials under way have reported."""
        return self.state / "journal.jsonl"

    @property
    def answers(self) -> Path:
        """The answer of each budget as it looked while the search went on."""
        return self.state / "answers.jsonl"

    @property
    def optuna(self) -> Path:
        """Optuna's studies, one a budget: `optuna-dashboard` opens the file as it is."""
        return self.state / "optuna.log"

    @property
    def ray(self) -> Path:
        """Ray Tune's own files."""
        return self.state / "ray"

    def checkpoint(self, trial: str) -> Path:
        """Where a trial keeps its last checkpoint, of about 12 bytes a parameter.

        While it runs; that of a stopped one stays until the stopping of its budget is concluded
        upon, since a rung that fails its audit is to be extended from there.
        """
        return self.state / "checkpoints" / f"{trial}.pt"

    @property
    def marker(self) -> Path:
        """A file beside the checkpoints by which a node knows that it sees them all."""
        return self.checkpoint("").with_name(MARKER)

    @property
    def ending(self) -> Path:
        """A file beside the checkpoints by which trials under way know that they are to save."""
        return self.checkpoint("").with_name(ENDING)

    def create(self) -> None:
        """Make the folders."""
        self.marker.parent.mkdir(parents=True, exist_ok=True)
        if not self.marker.exists():
            write_atomically(self.marker, uuid.uuid4().hex)


def default_tracking_uri(runs: Path) -> str:
    """MLflow's store where a study names none: the environment's, else a file beside the runs."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(runs / 'mlflow.db').absolute()}"


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader, or a crash, sees the old or the new one, never a half."""
    temporary = path.with_name(path.name + UNFINISHED)
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
