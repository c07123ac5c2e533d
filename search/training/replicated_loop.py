"""Train several trials of one shape as one model, and yield for each what it would measure alone.

The trials differ in seed and in learning rate. They share every launch of a kernel and nothing
else: each has its own data, clipping, rate and moments, and one that diverges is removed. Torch
only.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fathom.models.optim import ClippedAdamW
from fathom.models.parametrization import Parametrization
from fathom.models.replica_optim import Pattern, ReplicaAdamW
from fathom.models.replicas import Replicas
from fathom.models.shape import Shape
from fathom.objectives.contract import ReplicatedObjective
from fathom.search.training.evaluation import autocast, detailed_metrics, divergence
from fathom.search.training.layer_metrics import Layers
from fathom.search.training.loop import never
from fathom.search.training.state import Measurement, Training, TrainPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Everything in which the trials of one batched model may differ."""

    seed: int
    learning_rate: float
    """Peak learning rate, in place of the plan's."""


class ReplicaTraining:
    """Several trainings of one shape in one model with one optimizer.

    Neighbouring replicas of one rate are updated at once, so give them sorted by rate.
    """

    replicas: tuple[Replica, ...]
    """Replicas that still train."""
    model: Replicas
    optimizer: ReplicaAdamW
    loss_sums_R: Tensor
    """Sum of the training losses of each replica since the last evaluation."""

    def __init__(
        self, shape: Shape, parametrization: Parametrization, plan: TrainPlan,
        replicas: Sequence[Replica], *, device: torch.device,
    ) -> None:  # fmt: skip
        self.plan, self.device, self.step = plan, device, 0
        self.train_seconds = dict.fromkeys(replicas, 0.0)
        self.loss_steps = 0
        """Steps since the last evaluation."""
        self._shape, self._parametrization = shape, parametrization
        self._single = self._new_single(replicas[0])
        optimizer = self._single.optimizer
        assert isinstance(optimizer, ClippedAdamW), "checked with the study"
        self._pattern = Pattern.of(self._single.transformer, optimizer)
        self._build(replicas)
        for index, replica in enumerate(replicas):
            self.model.load_state_of(index, self._new_single(replica).model.state_dict())

    def state_dict(self, replica: Replica) -> dict[str, Any]:
        """Returns the `Training.state_dict` of one replica, as if it had trained alone."""
        index, step = self.replicas.index(replica), self.step
        rate_fraction = self.plan.rate_fraction(step - 1) if step else 0.0
        state = {
            "model": self.model.state_of(index),
            "optimizer": self.optimizer.state_of(index, step=step, share=rate_fraction),
            "step": step,
            "train_seconds": self.train_seconds[replica],
        }
        if self.loss_steps:  # the attributes `SINCE_EVALUATION`; statistics of steps are not kept
            state["loss_sum"] = self.loss_sums_R[index].clone()
            state |= {"loss_steps": self.loss_steps, "step_statistics": []}
        return state

    def charge(self, began: float) -> float:
        """Shares out the time since `began` among the replicas; returns the time of now."""
        now = time.perf_counter()
        for replica in self.replicas:
            self.train_seconds[replica] += (now - began) / len(self.replicas)
        return now

    def reset_statistics(self) -> None:
        """Start to accumulate the losses of the next evaluation."""
        self.loss_sums_R, self.loss_steps = torch.zeros_like(self.loss_sums_R), 0

    def single(self, replica: Replica) -> Training:
        """A single-model view of one replica, to be measured; the same object at every call."""
        single, index = self._single, self.replicas.index(replica)
        single.model.eval()
        single.model.load_state_dict(self.model.state_of(index))
        single.optimizer.norms_P = self.optimizer.norms_of(index)
        single.step, single.train_seconds = self.step, self.train_seconds[replica]
        return single

    def drop(self, replicas: Sequence[Replica]) -> None:
        """Remove replicas after an evaluation; the others keep their state."""
        kept = [replica for replica in self.replicas if replica not in replicas]
        states = [self.state_dict(replica) for replica in kept]
        if kept:
            self._build(kept)
        self.replicas = tuple(kept)
        for index, state in enumerate(states):
            self.model.load_state_of(index, state["model"])
            self.optimizer.load_state_of(index, state["optimizer"], step=self.step)

    def _new_single(self, replica: Replica) -> Training:
        """The training of one replica alone, before its first step."""
        return Training(
            self._shape, self._parametrization, self.plan, seed=replica.seed, device=self.device
        )

    def _build(self, replicas: Sequence[Replica]) -> None:
        """Builds the model without initial weights, and its optimizer."""
        self.replicas = tuple(replicas)
        self.model = Replicas(self._shape, self._parametrization, len(replicas), self.device)
        rates = [replica.learning_rate for replica in replicas]
        self.loss_sums_R = torch.zeros(len(replicas), device=self.device)
        self.optimizer = ReplicaAdamW(self.model, self._pattern, rates, betas=self.plan.betas)


def train_replicas(
    training: ReplicaTraining,
    objective: ReplicatedObjective,
    interrupted: Callable[[], bool] = never,
) -> Iterator[dict[Replica, Measurement]]:
    """Train from `training.step` and yield each replica's measurement at every evaluation step.

    Between two yields any replica may be saved or dropped. A replica that diverged is dropped after
    its measurement, and when none is left this ends. `interrupted` is called after every step,
    where all replicas may be saved as well, unless an evaluation comes next; once it returns True
    this generator ends.
    """
    for goal in training.plan.remaining_evaluations(training.step):
        if not training.replicas:
            return
        train_losses = advance(training, objective, goal=goal, interrupted=interrupted)
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
        training.reset_statistics()
        yield measured
        diverged = [replica for replica, own in measured.items() if own.diverged]
        if diverged:
            training.drop(diverged)


def train_step(training: ReplicaTraining, objective: ReplicatedObjective, step: int) -> Tensor:
    """Train all R replicas for one step; returns their losses before it, (R,)."""
    training.optimizer.set_share(training.plan.rate_fraction(step))
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
    interrupted: Callable[[], bool] = never,
) -> list[float]:
    """Train up to a step or an interrupt; returns each replica's mean training loss since the last
    evaluation, nats per token, which is read from the device once.

    Each replica is charged an equal part of the time, so that they add up to the device's.
    """
    began = time.perf_counter()
    for step in range(training.step, goal):
        training.loss_sums_R += train_step(training, objective, step)
        training.step, training.loss_steps = step + 1, training.loss_steps + 1
        began = training.charge(began)
        if interrupted():
            break
    means: list[float] = (training.loss_sums_R / training.loss_steps).tolist()
    training.charge(began)
    return means


def _measurement(
    training: ReplicaTraining,
    objective: ReplicatedObjective,
    replica: Replica,
    train_loss: float,
    metrics: dict[str, float],
) -> Measurement:
    loss, step, plan = metrics.pop("loss"), training.step, training.plan
    details, layers = dict[str, float](), Layers()
    if step in plan.detailed_steps:
        details, layers = detailed_metrics(training.single(replica), objective)
    return Measurement(
        step=step,
        loss=loss,
        train_loss=train_loss,
        train_seconds=training.train_seconds[replica],
        metrics=metrics | details,
        layers=layers,
        diverged=divergence(loss, train_loss, objective, plan, step=step),
    )
