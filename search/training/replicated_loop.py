"""Train several trials of one shape as one model, and yield for each what it would measure alone.

The trials differ in seed and in rate. They share every launch of a kernel and nothing else: data,
clipping, rates and moments are each trial's own, and one that diverges is taken out. Torch only.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fathom.models.optim import rate_at
from fathom.models.parametrization import Parametrization
from fathom.models.replica_optim import Pattern, ReplicaAdamW
from fathom.models.replicas import Replicas
from fathom.models.shape import Shape
from fathom.objectives.contract import ReplicatedObjective
from fathom.search.training.layer_metrics import Layers
from fathom.search.training.loop import (
    Measurement,
    Training,
    TrainPlan,
    autocast,
    divergence_of,
    looked_into,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """All in which the trials of one model may differ."""

    seed: int
    learning_rate: float
    """In place of the plan's."""


class ReplicaTraining:
    """Several trainings of one shape: one model, one optimizer.

    Replicas of one rate that are neighbours are updated at once, so give them sorted by rate.
    """

    replicas: tuple[Replica, ...]
    """Those that still train."""
    model: Replicas
    optimizer: ReplicaAdamW
    losses_R: Tensor
    """Sums over the steps since the last evaluation."""

    def __init__(
        self, shape: Shape, parametrization: Parametrization, plan: TrainPlan,
        replicas: Sequence[Replica], *, device: torch.device,
    ) -> None:  # fmt: skip
        self.plan, self.device, self.step = plan, device, 0
        self.train_seconds = dict.fromkeys(replicas, 0.0)
        self.counted = 0
        """Steps since the last evaluation."""
        self._shape, self._parametrization = shape, parametrization
        self._single = self._alone(replicas[0])
        self._pattern = Pattern.of(self._single.model, self._single.optimizer)
        self._build(replicas)
        for index, replica in enumerate(replicas):
            self.model.load_state_of(index, self._alone(replica).model.state_dict())

    def state_dict(self, replica: Replica) -> dict[str, Any]:
        """What `Training.state_dict` would hold, had this one trained alone."""
        index, step = self.replicas.index(replica), self.step
        share = self.share_at(step - 1) if step else 0.0
        return {
            "model": self.model.state_of(index),
            "optimizer": self.optimizer.state_of(index, step=step, share=share),
            "step": step,
            "train_seconds": self.train_seconds[replica],
            **(self._since_evaluation(index) if self.counted else {}),
        }

    def load_state_dicts(self, states: Mapping[Replica, dict[str, Any]]) -> None:
        """Go back to the states of all, saved here or by a `Training`.

        Raises:
            ValueError: when they are not of one step.
        """
        steps = sorted({state["step"] for state in states.values()})
        if len(steps) > 1:
            raise ValueError(f"replicas go on from one step, got {steps}; resume them in groups")
        (self.step,) = steps
        for index, replica in enumerate(self.replicas):
            state = states[replica]
            self.model.load_state_of(index, state["model"])
            self.optimizer.load_state_of(index, state["optimizer"], step=self.step)
            self.train_seconds[replica] = state["train_seconds"]
        self.counted = states[self.replicas[0]].get("counted", 0)
        if self.counted:
            self.losses_R = torch.stack([states[replica]["losses"] for replica in self.replicas])

    def evaluated(self) -> None:
        """From here on steps count towards the next evaluation."""
        self.losses_R, self.counted = torch.zeros_like(self.losses_R), 0

    def single(self, replica: Replica) -> Training:
        """One replica in a model of its own, to be looked into; the same one at every call."""
        single, index = self._single, self.replicas.index(replica)
        single.model.eval()
        single.model.load_state_dict(self.model.state_of(index))
        single.optimizer.norms_P = self.optimizer.norms_of(index)
        single.step, single.train_seconds = self.step, self.train_seconds[replica]
        return single

    def drop(self, replicas: Sequence[Replica]) -> None:
        """Go on without some; the others keep their state."""
        states = {one: self.state_dict(one) for one in self.replicas if one not in replicas}
        self.replicas = tuple(states)
        if states:
            self._build(self.replicas)
            self.load_state_dicts(states)

    def share_at(self, step: int) -> float:
        """Share of the peak rates at a step."""
        plan = self.plan
        return rate_at(
            step,
            steps=plan.steps,
            warmup_steps=plan.warmup_steps,
            cooldown_steps=plan.cooldown_steps,
        )

    def _since_evaluation(self, index: int) -> dict[str, Any]:
        """As in `train.SINCE_EVALUATION`; what was seen of each step is only had alone."""
        return {"losses": self.losses_R[index].clone(), "counted": self.counted, "seen": []}

    def _alone(self, replica: Replica) -> Training:
        """The training of one replica as it begins by itself."""
        return Training(
            self._shape, self._parametrization, self.plan, seed=replica.seed, device=self.device
        )

    def _build(self, replicas: Sequence[Replica]) -> None:
        """A model without values, and its optimizer."""
        self.replicas = tuple(replicas)
        self.model = Replicas(self._shape, self._parametrization, len(replicas), self.device)
        rates = [replica.learning_rate for replica in replicas]
        self.losses_R = torch.zeros(len(replicas), device=self.device)
        self.optimizer = ReplicaAdamW(self.model, self._pattern, rates, betas=self.plan.betas)


def train_replicas(
    training: ReplicaTraining,
    objective: ReplicatedObjective,
    leave: Callable[[], bool] = lambda: False,
) -> Iterator[dict[Replica, Measurement]]:
    """Go on from `training.step`, yielding what each replica measures at every evaluation step.

    Between two yields any replica may be saved or dropped. One that diverged is dropped after its
    measurement, and when none is left this ends. Once `leave`, asked after every step, says so,
    nothing more is yielded, and all may be saved as well.
    """
    for goal in training.plan.evaluation_steps:
        if goal <= training.step or not training.replicas:
            continue
        train_losses = advance(training, objective, goal=goal, leave=leave)
        if training.step < goal:
            return
        with autocast(training.device, training.plan):
            metrics = objective.evaluations(training.model, replicas=len(training.replicas))
            measured = {
                replica: _measurement(training, objective, replica, train_loss, own)
                for replica, train_loss, own in zip(
                    training.replicas, train_losses, metrics, strict=True
                )
            }
        training.evaluated()
        yield measured
        diverged = [replica for replica, own in measured.items() if own.diverged]
        if diverged:
            training.drop(diverged)


def train_step(training: ReplicaTraining, objective: ReplicatedObjective, step: int) -> Tensor:
    """One step of all replicas; their losses before it."""
    training.optimizer.set_share(training.share_at(step))
    seeds = [replica.seed for replica in training.replicas]
    batch = objective.batches(seeds=seeds, step=step, batch_size=training.plan.batch_size)
    with autocast(training.device, training.plan):
        losses_R = objective.losses(training.model, batch, replicas=len(seeds))
    # No replica's weight is in another's loss, so the gradient of the sum is the gradient of each.
    losses_R.sum().backward()  # type: ignore[no-untyped-call]
    training.optimizer.step(grad_clip=training.plan.grad_clip)
    return losses_R.detach()


def advance(
    training: ReplicaTraining,
    objective: ReplicatedObjective,
    *,
    goal: int,
    leave: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Train up to a step, or until it is to leave; each replica's mean training loss since the last
    evaluation, read from the device once.

    Each is charged its share of the time, so that all together are charged what the device took.
    """
    began = time.perf_counter()
    for step in range(training.step, goal):
        training.losses_R += train_step(training, objective, step)
        training.step, training.counted = step + 1, training.counted + 1
        if leave():
            break
    means: list[float] = (training.losses_R / training.counted).tolist()
    share = (time.perf_counter() - began) / len(means)
    for replica in training.replicas:
        training.train_seconds[replica] += share
    return means


def _measurement(
    training: ReplicaTraining,
    objective: ReplicatedObjective,
    replica: Replica,
    train_loss: float,
    metrics: dict[str, float],
) -> Measurement:
    loss = metrics.pop("loss")
    warm = training.step > training.plan.warmup_steps
    more, layers = dict[str, float](), Layers()
    if training.step in training.plan.looking_steps:
        more, layers = looked_into(training.single(replica), objective, training.plan)
    return Measurement(
        step=training.step,
        loss=loss,
        train_loss=train_loss,
        train_seconds=training.train_seconds[replica],
        metrics=metrics | more,
        layers=layers,
        diverged=divergence_of(loss, train_loss, objective.chance_loss, warm=warm),
    )
