"""The processes of `benchmarks.speed.packing`: each trains by order, alone or beside others."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import fmean
from time import perf_counter, process_time

import torch

from fathom.models.parametrization import Parametrization, Scheme
from fathom.models.shape import Shape
from fathom.objectives.text.language.objective import Language
from fathom.search.training.loop import advance, record_step
from fathom.search.training.state import Training, TrainPlan

PARAMETRIZATION = Parametrization(
    scheme=Scheme.COMPLETEP, base_width=64, base_depth=2, base_head_dim=32, init_std=0.04
)
RATE = 4e-3
WARM_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A shape, a batch size, a device, and whether steps are recorded as a CUDA graph."""

    shape: Shape
    batch_size: int
    device: str
    recorded: bool = False

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
            evaluation_steps=(10**6,),
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

    def prepare(self, case: Case) -> None:
        """Builds a trial and warms up."""
        device = torch.device(case.device)
        objective = self._objective.to(device)
        self._clock = perf_counter if case.device == "cuda" else process_time
        self._run = _training(case, objective, device)
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


def _rest(steps: int) -> None:
    """Releases the device's memory."""


def _training(case: Case, objective: Language, device: torch.device) -> Callable[[int], None]:
    plan = case.plan
    training = Training(case.shape, PARAMETRIZATION, plan, seed=0, device=device)
    if case.recorded:
        record_step(training, objective)

    def run(steps: int) -> None:
        advance(training, objective, goal=training.step + steps)

    return run


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

    def speed(self, case: Case, *, processes: int, seconds: float) -> float:
        """Tokens a second of all trials of all these processes."""
        self.ask(processes, "prepare", case)
        rates = self.ask(processes, "steps_per_second", seconds)
        total = sum(rates) if case.device == "cuda" else fmean(rates)  # one core for all
        return total * case.tokens_per_step

    def dismiss(self) -> None:
        """Tells the worker processes to end."""
        for pipe in self._pipes:
            pipe.send(None)
