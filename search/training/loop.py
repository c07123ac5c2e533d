"""Train one model on one objective and yield what is measured. Torch only: no Ray, no MLflow.

The loop reads nothing but its arguments, draws no random number (a batch is a function of seed and
step) and never waits for the device inside a step, so that it can be run, resumed bit-identically
and timed on any machine that has torch.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from fathom.models.admin import profile
from fathom.models.optim import build_optimizer, rate_at, set_learning_rate
from fathom.models.parametrization import Parametrization
from fathom.models.shape import Residual, Shape
from fathom.models.transformer import Transformer
from fathom.objectives.contract import Batch, Model, Objective
from fathom.search.training.best_weights import Kept, kept_after
from fathom.search.training.data_parallel import ALONE, Ranks, weighted_parts
from fathom.search.training.layer_metrics import Layers, diagnose, in_short, looks, where_it_began
from fathom.search.training.speed import speed

HOPELESS_NATS = 1.0
"""Held-out loss above that of a guess at which a trial has diverged. Not less: a slow
starter was seen 0.13 above it at its first evaluation."""

SINCE_EVALUATION = ("losses", "counted", "seen")
"""What a `Training` gathers from one evaluation to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPlan:
    """How a trial trains; durations in optimizer steps."""

    steps: int
    batch_size: int
    """Sequences a step."""
    learning_rate: float
    """Peak rate at the base shape of the parametrization."""
    warmup_steps: int
    cooldown_steps: int
    pretraining_steps: int = 0
    """Steps at the beginning that do not train for the held-out loss: it then judges nothing."""
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    grad_clip: float
    evaluation_steps: tuple[int, ...]
    """Steps after which the model is evaluated, ascending; the last is `steps`."""
    bfloat16: bool
    """Autocast to bfloat16 (on an accelerator that has it)."""
    compiled: bool = False
    """Compile the loss of training steps; evaluations, of another batch size, stay as they are."""
    diagnostics: bool = False
    """Look into the layers at the end and at evaluations that lie apart."""
    micro_batches: int = 1
    """Parts of a batch that go through the model one after another, where memory asks for it."""
    patience: int | None = None
    """Evaluations without a lower held-out loss after which training ends; the weights of the
    lowest one then count, and so they do at the horizon."""

    @property
    def looking_steps(self) -> tuple[int, ...]:
        """Evaluations with more than a loss: the end, and with diagnostics some before it."""
        return looks(self.evaluation_steps) if self.diagnostics else self.evaluation_steps[-1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one evaluation saw."""

    step: int
    loss: float
    """Held-out loss, nats per token."""
    train_loss: float
    """Mean over the steps since the last evaluation."""
    train_seconds: float
    """Time in training steps since training began, evaluations and compiling excluded."""
    metrics: dict[str, float] = field(default_factory=dict)
    layers: Layers = field(default_factory=dict)
    diverged: str = ""
    """Why this counts as divergence; empty when it does not."""


class Training:
    """A model, its optimizer and how far they have come: all that a checkpoint holds."""

    def __init__(
        self, shape: Shape, parametrization: Parametrization, plan: TrainPlan, *, seed: int,
        device: torch.device, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        # The meta device would spare what PyTorch draws, but it imports the compiler: 2 s a worker.
        with device:
            self.model = Transformer(shape, parametrization)
        if plan.compiled:
            # Else the ninth shape in a process would not be compiled: PyTorch then gives up.
            torch.compiler.reset()
        self.model.initialise(torch.Generator(device).manual_seed(seed))
        self.ranks, self.network = ranks, ranks.network(self.model)
        self.optimizer = build_optimizer(
            self.model, weight_decay=plan.weight_decay, betas=plan.betas, eps=plan.eps
        )
        self.step = 0
        self.train_seconds = 0.0
        self.compile_seconds = 0.0
        self.device = device
        self.losses = torch.zeros((), device=device)
        """Sum over the steps since the last evaluation."""
        self.counted = 0
        """These steps."""
        self.seen: list[Tensor] = []
        """Of each of them the loss, then the gradients' norms (1 + P,)."""
        self.kept: Kept | None = None
        """With patience, the best evaluation."""
        self.ended = ""
        """Why it has gone back to what was kept; empty when it has not."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on as if nothing had happened."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "train_seconds": self.train_seconds,
            **({"kept": asdict(self.kept), "ended": self.ended} if self.kept else {}),
            **({name: getattr(self, name) for name in SINCE_EVALUATION} if self.counted else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a state saved by `state_dict`."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.train_seconds = state["train_seconds"]
        if "kept" in state:
            self.kept, self.ended = Kept(**state["kept"]), state["ended"]
        if "counted" in state:
            self.losses, self.counted, self.seen = (state[name] for name in SINCE_EVALUATION)

    def evaluated(self) -> None:
        """From here on steps count towards the next evaluation."""
        self.losses, self.counted, self.seen = torch.zeros_like(self.losses), 0, []

    def go_back(self, patience: int, steps: int) -> bool:
        """Take back what was kept if this evaluation is the last; True when it was."""
        kept = self.kept
        if kept is None or not kept.since or (kept.since < patience and self.step < steps):
            return False
        self.model.load_state_dict(kept.weights)
        self.ended = kept.reason(horizon=self.step == steps)
        return True


def train(
    training: Training,
    objective: Objective,
    plan: TrainPlan,
    *,
    seed: int,
    leave: Callable[[], bool] = lambda: False,
) -> Iterator[Measurement]:
    """Go on from `training.step` to the end, yielding at every evaluation step.

    Between two measurements `training` may be saved; a diverged measurement is the last one. With
    patience, that of the end is of the weights with the lowest held-out loss. Once `leave`, asked
    after every step, says so, nothing more is yielded, and `training` may be saved as well.
    """
    if training.ended:
        return
    if training.step == 0 and training.model.shape.residual is Residual.ADMIN:
        first = objective.batch(seed=seed, step=0, batch_size=plan.batch_size)
        profile(training.model, first.inputs)
    if plan.compiled and training.step < plan.steps:
        began = time.perf_counter()
        compile_step(training, objective, plan, seed=seed)
        training.compile_seconds = time.perf_counter() - began
    for goal in plan.evaluation_steps:
        if goal <= training.step:
            continue
        began = time.perf_counter()
        train_loss = advance(training, objective, plan, goal=goal, seed=seed, leave=leave)
        training.train_seconds += time.perf_counter() - began
        if training.step < goal:
            return
        metrics, layers = training.ranks.told(lambda: _evaluated(training, objective, plan))
        loss = metrics.pop("loss")
        diverged = divergence_of(
            loss,
            train_loss,
            objective.chance_loss,
            warm=goal > plan.pretraining_steps + plan.warmup_steps,
        )
        if diverged and training.seen:
            where = _where(training, objective.chance_loss)
            diverged = f"{diverged}; {where}" if where else diverged
        training.evaluated()
        if plan.patience is not None and goal > plan.pretraining_steps and not diverged:
            training.kept = kept_after(training.kept, training.model, step=goal, loss=loss)
            if training.go_back(plan.patience, plan.steps):
                metrics, layers = training.ranks.told(lambda: _evaluated(training, objective, plan))
                loss, metrics["kept_step"] = metrics.pop("loss"), float(training.kept.step)
        yield Measurement(
            step=goal,
            loss=loss,
            train_loss=train_loss,
            train_seconds=training.train_seconds,
            metrics=metrics,
            layers=layers,
            diverged=diverged,
        )
        if diverged or training.ended:
            return


def _evaluated(
    training: Training, objective: Objective, plan: TrainPlan
) -> tuple[dict[str, float], Layers]:
    """What is measured now."""
    more, layers = dict[str, float](), Layers()
    training.model.eval()
    with autocast(training.device, plan):
        metrics = objective.evaluate(training.model)
        if training.ended or training.step in plan.looking_steps:
            more, layers = looked_into(training, objective, plan)
    training.model.train()
    return metrics | more, layers


def looked_into(
    training: Training, objective: Objective, plan: TrainPlan
) -> tuple[dict[str, float], Layers]:
    """What is measured beside the loss, and at the end what is measured only then."""
    model, metrics, layers = training.model, dict[str, float](), Layers()
    ended = training.step == plan.steps or bool(training.ended)
    if ended:
        metrics |= objective.final_metrics(model)
    if plan.diagnostics:
        layers = diagnose(model, training.optimizer, objective)
        metrics |= in_short(layers)
    if plan.diagnostics and ended:
        metrics |= _speed(training, objective, plan)
    return metrics, layers


def _speed(training: Training, objective: Objective, plan: TrainPlan) -> dict[str, float]:
    tokens = training.step * plan.batch_size * objective.context
    measured = speed(
        training.model,
        tokens_per_second=tokens / training.train_seconds / training.ranks.size,
        bfloat16=plan.bfloat16,
    )
    return measured | {"compile_seconds": training.compile_seconds}


def _where(training: Training, chance_loss: float) -> str:
    seen_SX = torch.stack(training.seen)
    return where_it_began(
        training.model,
        training.optimizer,
        seen_SX[:, 0],
        seen_SX[:, 1:],
        first=training.step - len(seen_SX) + 1,
        limit=chance_loss + HOPELESS_NATS,
    )


def advance(
    training: Training,
    objective: Objective,
    plan: TrainPlan,
    *,
    goal: int,
    seed: int,
    leave: Callable[[], bool] = lambda: False,
) -> float:
    """Train up to a step, or until it is to leave; the mean training loss since the last
    evaluation, read from the device once.
    """
    ranks, optimizer, total = training.ranks, training.optimizer, training.losses
    loss_of = _loss_of(objective, plan)
    for step in range(training.step, goal):
        rate_share = rate_at(
            step,
            steps=plan.steps,
            warmup_steps=plan.warmup_steps,
            cooldown_steps=plan.cooldown_steps,
        )
        set_learning_rate(optimizer, plan.learning_rate * rate_share)
        batch = objective.batch(seed=seed, step=step, batch_size=plan.batch_size)
        parts = weighted_parts(batch, ranks, plan.micro_batches)
        before = total.clone() if plan.diagnostics else total
        for part, weight in parts:
            with autocast(training.device, plan):
                loss = loss_of(training.network, part)
            if weight != 1.0:
                loss = loss * weight
            ranks.backward(loss)
            total += loss.detach()
        optimizer.clipped_step(plan.grad_clip)
        if plan.diagnostics and optimizer.norms_P is not None:
            own_loss = (total - before) / sum(weight for _, weight in parts)
            training.seen.append(torch.cat((own_loss.view(1), optimizer.norms_P)))
        training.step, training.counted = step + 1, training.counted + 1
        if leave():
            break
    return _mean(ranks.total(total), training.counted)


def compile_step(training: Training, objective: Objective, plan: TrainPlan, *, seed: int) -> None:
    """Compile what a step runs, so that no step is timed with it; changes nothing in `training`."""
    batch = objective.batch(seed=seed, step=training.step, batch_size=plan.batch_size)
    with autocast(training.device, plan):
        loss = _loss_of(objective, plan)(training.network, training.ranks.share(batch))
    loss.backward()  # type: ignore[no-untyped-call]
    training.model.zero_grad(set_to_none=True)


def _loss_of(objective: Objective, plan: TrainPlan) -> Callable[[Model, Batch], Tensor]:
    return torch.compile(objective.loss, dynamic=False) if plan.compiled else objective.loss


def _mean(total: Tensor, count: int) -> float:
    return float(total) / count


def divergence_of(loss: float, train_loss: float, chance_loss: float, *, warm: bool) -> str:
    if not (math.isfinite(loss) and math.isfinite(train_loss)):
        return f"the loss is not finite (held out {loss}, training {train_loss})"
    if warm and loss > chance_loss + HOPELESS_NATS:
        return f"the loss {loss:.3f} is far above {chance_loss:.3f}, that of a guess"
    return ""


def autocast(device: torch.device, plan: TrainPlan) -> contextlib.AbstractContextManager[object]:
    if plan.bfloat16:
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
