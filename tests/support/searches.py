"""New searches of a study, as `fathom run` makes them before their first trial."""

from pathlib import Path

from benchmarks.simulate.driver import new_scheduler
from fathom.search.scheduling.scheduler import Listener, Scheduler
from fathom.search.study.file.study_file import parse
from fathom.search.study.keys.config import StudyConfig


def new_search(
    path: Path, study: str | StudyConfig, vocabulary: int, *listeners: Listener
) -> Scheduler:
    """The scheduler of a study, with a run folder at the path."""
    config = parse(study) if isinstance(study, str) else study
    return new_scheduler(config, path, listeners, vocab_size=vocabulary)
