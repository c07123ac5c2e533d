"""The processes of `benchmarks.speed.packing`: each trains by order, alone or beside others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import fmean
from time import perf_counter, process_time

import torch

from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape
from fathom.objectives.text.language.objective import Language
from fathom.search.training.loop import advance, train
from fathom.search.training.replicated_loop import Replica, ReplicaTraining, train_replicas
from fathom.search.training.replicated_loop import advance as advance_replicas
from fathom.search.training.state import Training, TrainPlan

PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=64, base_depth=2, base_head_dim=32, init_std=0.04
)
RATE = 4e-3
BRACKET = (0.5, 1.0, 2.0)
"""Multiples of the rate in the confirmation stage on its first seed; other seeds train at 1."""
COMPARED_STEPS = (1, 20)
"""Steps after which the losses of both ways are compared."""
WARM_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A shape, a batch size and a device to measure."""

    shape: Shape
    batch_size: int
    device: str

    @property
    def tokens_per_step(self) -> int:
        """Tokens in a step of one trial."""
        return self.batch_size * self.shape.context

    @property
    def plan(self) -> TrainPlan:
        """A plan whose horizon no timing reaches."""
        return TrainPlan(
            steps=10**6,
            batch_size=self.batch_size,
            learning_rate=RATE,
            warmup_steps=10,
            cooldown_steps=10,
            weight_decay=0.1,
            betas=(0.9, 0.95),
            eps=1e-12,
            grad_clip=1.0,
            evaluation_steps=COMPARED_STEPS,
            bfloat16=self.device == "cuda",
        )


class Trainer:
    """Orders that a worker process carries out, one after another."""

    def __init__(self, objective: Language) -> None:
        torch.set_num_threads(1)
        self._objective = objective
        self._run: Callable[[int], None] = _rest
        self._clock: Callable[[], float] = perf_counter
        self._chunk = 1

    def prepare(self, case: Case, replicas: int) -> None:
        """Build one trial, or several as one model, and warm up."""
        device = torch.device(case.device)
        objective = self._objective.to(device)
        self._clock = perf_counter if case.device == "cuda" else process_time
        if replicas == 1:
            self._run = _single(case, objective, device)
        else:
            self._run = _batched(case, objective, device, replicas)
        self._run(WARM_STEPS)
        began = self._clock()
        self._run(WARM_STEPS)
        step_seconds = (self._clock() - began) / WARM_STEPS
        self._chunk = max(1, round(0.1 / step_seconds))

    def steps_per_second(self, seconds: float) -> float:
        """Returns the speed of the prepared training over at least `seconds`, then releases it.

        On a CPU the seconds are CPU time of the process, which other processes do not lengthen.
        """
        steps, began = 0, self._clock()
        while (elapsed := self._clock() - began) < seconds:
            self._run(self._chunk)
            steps += self._chunk
        self._run = _rest
        return steps / elapsed

    def difference(self, case: Case, replicas: int) -> float:
        """Largest difference between a trial's loss in a batched model and alone, in nats."""
        device, plan = torch.device(case.device), case.plan
        objective, several = self._objective.to(device), replicas_of(replicas)
        training = ReplicaTraining(case.shape, PARAMETRIZATION, plan, several, device=device)
        together = list(train_replicas(training, objective))
        gaps = []
        for replica in several:
            own = replace(plan, learning_rate=replica.learning_rate)
            alone = Training(case.shape, PARAMETRIZATION, own, seed=replica.seed, device=device)
            for one, all_ in zip(train(alone, objective), together, strict=True):
                gaps.append(abs(one.loss - all_[replica].loss))
                gaps.append(abs(one.train_loss - all_[replica].train_loss))
        return max(gaps)


def _rest(steps: int) -> None:
    """Releases the device's memory."""


def _single(case: Case, objective: Language, device: torch.device) -> Callable[[int], None]:
    plan = case.plan
    training = Training(case.shape, PARAMETRIZATION, plan, seed=0, device=device)

    def run(steps: int) -> None:
        advance(training, objective, goal=training.step + steps)

    return run


def _batched(
    case: Case, objective: Language, device: torch.device, replicas: int
) -> Callable[[int], None]:
    several = replicas_of(replicas)
    training = ReplicaTraining(case.shape, PARAMETRIZATION, case.plan, several, device=device)

    def run(steps: int) -> None:
        advance_replicas(training, objective, goal=training.step + steps)

    return run


def replicas_of(count: int) -> list[Replica]:
    """The confirming trials of a shape: fresh seeds, and the first one also at other rates."""
    trials = [(1.0, seed) for seed in range(count)]
    if count > len(BRACKET):
        trials = [(scale, 0) for scale in BRACKET]
        trials += [(1.0, seed) for seed in range(1, count - len(BRACKET) + 1)]
    return [Replica(seed=seed, learning_rate=RATE * scale) for scale, seed in sorted(trials)]


def serve(orders: Connection, objective: Language) -> None:
    """Carries out orders in a worker process until there are no more."""
    trainer = Trainer(objective)
    while order := orders.recv():
        name, *arguments = order
        orders.send(getattr(trainer, name)(*arguments))


class Workers:
    """Processes that hold the device together, as fractions of a GPU do under Ray."""

    def __init__(self, count: int, objective: Language) -> None:
        context = get_context("spawn")
        pipes = [context.Pipe() for _ in range(count)]
        self._pipes = [ours for ours, _ in pipes]
        for _, theirs in pipes:
            context.Process(target=serve, args=(theirs, objective), daemon=True).start()

    def ask(self, count: int, *order: object) -> list[float]:
        """Sends an order to the first `count` workers at once; returns their answers."""
        for pipe in self._pipes[:count]:
            pipe.send(order)
        return [pipe.recv() for pipe in self._pipes[:count]]

    def speed(self, case: Case, *, processes: int, replicas: int, seconds: float) -> float:
        """Tokens a second of all trials of all these processes."""
        self.ask(processes, "prepare", case, replicas)
        rates = self.ask(processes, "steps_per_second", seconds)
        total = sum(rates) if case.device == "cuda" else fmean(rates)  # one core for all
        return total * replicas * case.tokens_per_step

    def dismiss(self) -> None:
        """Tells the worker processes to end."""
        for pipe in self._pipes:
            pipe.send(None)
