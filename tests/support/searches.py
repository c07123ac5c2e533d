"""New searches of a study, as `fathom run` makes them before their first trial."""

from pathlib import Path

from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.scheduler import Listener, Scheduler
from fathom.search.study.keys.config import StudyConfig, parse
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.shapes import feasible_shapes


def new_search(
    path: Path, study: str | StudyConfig, vocabulary: int, *listeners: Listener
) -> Scheduler:
    """The scheduler of a study, with a run folder at the path."""
    config = parse(study) if isinstance(study, str) else study
    folder = RunFolder(path)
    folder.create()
    spaces = {
        budget: feasible_shapes(config, budget, vocabulary) for budget in expand_budgets(config)
    }
    return Scheduler(config, spaces, folder, listeners)
