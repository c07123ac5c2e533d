"""The assignment of a trial to a worker, and the one for a training outside a search."""

from dataclasses import dataclass
from typing import Self

from fathom.models.shape import Shape
from fathom.search.records import Stage, TrialSpec, derive_seed
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.planning.budget import Budget


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything that a worker needs to run a trial, except the objective's data."""

    config: StudyConfig
    budget: Budget
    """The budget, with its numbers of steps for the trial's shape."""
    spec: TrialSpec
    checkpoint: str
    """Path of the checkpoint file, the same on every node."""
    marker: str = ""
    """Content of the run's marker file, which lies beside the checkpoint."""
    out_of_memory: bool = False
    """True if an earlier worker of the trial was killed when its node ran out of memory."""
    excluded_nodes: tuple[str, ...] = ()
    """Ids of the nodes on which the trial may not run, since it has lost a worker there."""
    alone: bool = False
    """True if the trial gets a whole GPU, although others share one, since a shared GPU failed
    under it."""
    gpu_pipes: str = ""
    """Folder of CUDA's MPS, through which the trial shares its GPU; empty if it needs no MPS."""
    working_folder: str = "."
    """Folder in which the study's command is started: the folder in which the user started
    `fathom`."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Returns the assignment itself, since it never changes; otherwise Tune would copy it for
        each trial that it keeps."""
        return self

    @property
    def seed(self) -> int:
        """Seed of every random draw in the trial."""
        return derive_seed(self.config.seed, "trial", self.spec.seed)


def standalone_spec(
    trial: str, config: StudyConfig, budget: Budget, shape: Shape, *, seed: int = 0
) -> TrialSpec:
    """The description of a training outside a search: it is never pruned and has the study's
    learning rate."""
    return TrialSpec(
        trial=trial,
        study=config.study,
        stage=Stage.CONFIRM,
        budget=budget.params,
        count=config.count,
        shape=shape,
        **budget.length_of(shape),
        seed=seed,
        learning_rate=config.train.learning_rate,
        rate_scale=1.0,
        prunable=False,
    )


def best_assignment(
    config: StudyConfig, budget: Budget, shape: Shape, *, checkpoint: str
) -> Assignment:
    """The assignment that trains a best shape outside a search."""
    spec = standalone_spec(f"{budget.label}-best", config, budget, shape)
    return Assignment(config, budget.of_shape(shape), spec, checkpoint)
