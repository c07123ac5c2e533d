"""Searches on planted losses of one study, to be disturbed, and what each has come to."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.simulate.driver import VOCAB_SIZE, scheduler_in
from fathom.models.shape import Shape
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.conclusion.conclude import conclude_run
from fathom.search.json_lines import read_lines
from fathom.search.records import TrialRecord
from fathom.search.run_folder import RunFolder
from fathom.search.scheduling.journal import read_run
from fathom.search.scheduling.scheduler import Scheduler
from fathom.search.study.keys.groups import Sampler
from fathom.search.study.planning.budget import Budget, expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from tests.support.dry_run import Simulation, optuna_trials, study
from tests.support.whole_records import whole_records

BUDGET = 20_000


@dataclass(frozen=True)
class SearchResult:
    """What a search has come to, without the clock."""

    records: dict[str, TrialRecord]
    confirmations: list[object]
    """Batches of confirming trials, in the order in which they were planned."""
    optima: tuple[Optimum, ...]
    optuna: Counter[object]
    """Trials in Optuna's file: name, state and value."""


class PlantedSearch:
    """A study of one budget whose searches are told planted losses."""

    def __init__(self, sampler: Sampler) -> None:
        self.config = study(budgets=(BUDGET,), sampler=sampler)
        self._spaces: dict[Budget, tuple[Shape, ...]] = {
            budget: feasible_shapes(self.config, budget, VOCAB_SIZE)
            for budget in expand_budgets(self.config)
        }

    def open(self, folder: RunFolder) -> Scheduler:
        """A scheduler that begins or resumes the search in a folder."""
        return scheduler_in(folder.path, self.config, self._spaces)

    def finish(self, path: Path) -> SearchResult:
        """Begins or resumes the search in a folder and disturbs it no more."""
        folder = RunFolder(path)
        Simulation(search := self.open(folder)).run()
        assert search.done
        return self.ended(folder)

    def ended(self, folder: RunFolder) -> SearchResult:
        """What the search in a folder has come to, which has ended."""
        lines = read_lines(folder.journal)
        past = read_run(folder, self.config)
        conclusion = conclude_run(folder, self.config, past)
        assert not conclusion.unfinished
        return SearchResult(
            records=whole_records(folder),
            confirmations=[line["choices"] for line in lines if line["event"] == "confirmations"],
            optima=conclusion.optima,
            optuna=Counter(
                (trial.user_attrs["trial"], trial.state, trial.value)
                for trial in optuna_trials(self.open(folder), BUDGET)
            ),
        )
