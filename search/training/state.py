"""A training: its plan, its state as in a checkpoint, and the measurement of an evaluation."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fathom.models.building import build_model
from fathom.models.group_penalty import GroupPenalty
from fathom.models.methods import AroundSteps, method
from fathom.models.network.experts import MixtureOfExperts
from fathom.models.network.transformer import Transformer
from fathom.models.optim import ClippedAdamW, build_optimizer, rate_at
from fathom.models.parametrization import OptimizerName
from fathom.models.recipe import Recipe
from fathom.models.shape import Shape
from fathom.objectives.contract import Batch, Model
from fathom.search.training.compile_policy import begin_compiling
from fathom.search.training.layer_metrics import Layers, diagnostics_steps
from fathom.search.training.ranks.data_parallel import SINGLE_PROCESS, Ranks
from fathom.search.training.ranks.sharding import whole

SINCE_EVALUATION = ("loss_sum", "loss_steps", "step_statistics")
"""Attributes of a `Training` that accumulate between two evaluations."""


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """Settings of a trial's training; durations in optimizer steps."""

    steps: int
    batch_size: int
    """Sequences per step."""
    learning_rate: float
    """Peak learning rate at the base shape of the parametrization."""
    warmup_steps: int
    cooldown_steps: int
    pretraining_steps: int = 0
    """Number of pre-training steps at the start, during which no trial is judged by its loss."""
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    optimizer: OptimizerName = OptimizerName.ADAMW
    grad_clip: float
    dropout: float = 0.0
    """Probability with which elements of the embeddings and of each branch's output are set to zero
    in training."""
    label_smoothing: float = 0.0
    """Share of each target that the training loss spreads over the vocabulary."""
    auto_sizing: GroupPenalty | None = None
    """Penalty of the proximal step that follows each step of the optimizer; None without
    auto-sizing."""
    evaluation_steps: tuple[int, ...]
    """Steps after which the model is evaluated, ascending; the last is `steps`."""
    bfloat16: bool
    """True to autocast to bfloat16 (on an accelerator that has it)."""
    compiled: bool = False
    """True to compile the blocks, or the loss of a user's own model, for training steps;
    evaluations, which have another batch size, are not compiled."""
    may_be_eager: bool = False
    """True if the study lets Fathom choose whether to compile or record steps; if the compiler then
    fails, steps are eager. If False, a failure of the compiler is an error."""
    recorded: bool = False
    """True to record the launches of a whole step, compiled or not, and replay them as one CUDA
    graph."""
    diagnostics: bool = False
    """True to measure the layers at the end and at some earlier evaluations."""
    micro_batches: int = 1
    """Number of parts in which a batch goes through the model, one after another, to save
    memory."""
    recomputes: bool = False
    """True to compute activations of layers a second time, in the backward pass, to save memory."""
    shards: bool = False
    """True if each of several processes keeps only its part of weights, gradients and optimizer
    moments."""
    patience: int | None = None
    """Number of evaluations without a lower held-out loss after which training stops early. If set,
    the best weights are the training's result, even if it reaches the horizon."""

    @property
    def detailed_steps(self) -> tuple[int, ...]:
        """Steps of the evaluations that measure more than a loss: the last one, and those with
        diagnostics."""
        steps = self.evaluation_steps
        return diagnostics_steps(steps) if self.diagnostics else steps[-1:]

    def rate_fraction(self, step: int) -> float:
        """The learning rate of a step, as a fraction of its peak."""
        return rate_at(
            step,
            steps=self.steps,
            warmup_steps=self.warmup_steps,
            cooldown_steps=self.cooldown_steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The result of one evaluation."""

    step: int
    loss: float
    """Held-out loss, nats per token."""
    train_loss: float
    """Mean training loss over the steps since the last evaluation, nats per token."""
    train_seconds: float
    """Seconds spent in training steps since training began, without evaluations and compiling."""
    metrics: dict[str, float] = field(default_factory=dict)
    layers: Layers = field(default_factory=dict)
    diverged: str = ""
    """Reason why the training counts as diverged; empty when it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestWeights:
    """The weights with the lowest held-out loss so far; early stopping restores them."""

    step: int
    loss: float
    """Held-out loss, nats per token."""
    weights: dict[str, Tensor]
    """Copy of the model's `state_dict`."""
    evaluations_since: int = 0

    def reason(self, *, at_horizon: bool) -> str:
        """Returns the reason of early stopping as one line."""
        early = "stopped early, as its held-out loss fell no further"
        end = "trained to the horizon" if at_horizon else early
        before = f"{self.evaluations_since} evaluations before"
        return f"{end}: restored the weights of step {self.step}, {before}"


class Training:
    """A model, its optimizer and its progress: everything a checkpoint holds."""

    def __init__(
        self, shape: Shape, recipe: Recipe, plan: TrainPlan, *, seed: int,
        device: torch.device, ranks: Ranks = SINGLE_PROCESS,
    ) -> None:  # fmt: skip
        self.plan, self.seed, self.device = plan, seed, device
        where = torch.device("cpu") if plan.shards else device  # whole, it may not fit a GPU
        self.model = build_model(shape, recipe, seed=seed, device=where)
        if plan.compiled:
            begin_compiling(shape)
            if isinstance(self.model, Transformer):
                self.model.compile_blocks()
        if isinstance(self.model, Transformer):
            self.model.regularise(dropout=plan.dropout, label_smoothing=plan.label_smoothing)
        self.model.recomputes = plan.recomputes
        self.experts = [part for part in self.model.modules() if isinstance(part, MixtureOfExperts)]
        self.micro_batches = plan.micro_batches
        """Number of micro-batches of a step: the plan's, or more if memory ran out."""
        self.ranks = ranks
        self.network = ranks.network(self.model, shards=device.type if plan.shards else "")
        self.optimizer = build_optimizer(
            self.model,
            weight_decay=plan.weight_decay,
            betas=plan.betas,
            eps=plan.eps,
            name=plan.optimizer,
            sharded=plan.shards,
        )
        self.auto_sizing: AroundSteps | None = None
        if penalty := plan.auto_sizing:
            sizing = method("AutoSizing")
            self.auto_sizing = sizing(self.model, self.optimizer, penalty, steps=plan.steps)
        self.compiled_loss: Callable[[Model, Batch], Tensor] | None = None
        """The loss function of a user's own model, compiled, once a step has used it."""
        self.recorded: Callable[[Training, Batch, float], Tensor] | None = None
        """Function that takes one step of this training with a batch and a learning rate and
        returns the loss, if steps are recorded."""
        self.step = 0
        self.train_seconds = 0.0
        self.compile_seconds = 0.0
        self.loss_sum = torch.zeros((), device=device, dtype=torch.float64)
        """Sum of the training losses since the last evaluation. In double precision the sum is not
        rounded, so that a save, which sums it over ranks, changes no digit."""
        self.loss_steps = 0
        """Steps since the last evaluation."""
        self.step_statistics: list[Tensor] = []
        """The loss and the norms of the P gradients, (1 + P,), of each step since the last
        evaluation; empty without diagnostics."""
        self.best: BestWeights | None = None
        """Best weights so far; None without patience."""
        self.ended = ""
        """Reason why training ended with its best weights restored; empty if it has not."""
        self.diverged = ""
        """Reason why the last evaluation counts as divergence; empty if it does not."""

    def become_eager(self) -> None:
        """Makes all further steps eager: none is compiled any more."""
        self.plan = replace(self.plan, compiled=False)
        self.compiled_loss = None
        if isinstance(self.model, Transformer):
            self.model.uncompile_blocks()

    @property
    def transformer(self) -> Transformer:
        """The model, where it is Fathom's own."""
        assert isinstance(self.model, Transformer), "for Fathom's own model only"
        return self.model

    def keep_best_weights(self, loss: float) -> BestWeights:
        """Returns the best weights after an evaluation with this held-out loss, and keeps them."""
        if self.best is not None and loss >= self.best.loss:
            self.best = replace(self.best, evaluations_since=self.best.evaluations_since + 1)
        else:
            state = self.model.state_dict()
            weights = {name: weight.detach().clone() for name, weight in state.items()}
            self.best = BestWeights(step=self.step, loss=loss, weights=weights)
        return self.best

    def state_dict(self) -> dict[str, Any]:
        """Returns everything needed to resume bit for bit; waits until all ranks have called it."""
        since = {name: getattr(self, name) for name in SINCE_EVALUATION} if self.loss_steps else {}
        if since:
            since["loss_sum"] = self.ranks.sum(self.loss_sum.clone())
        more = self.micro_batches > self.plan.micro_batches  # a step ran out of memory
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "train_seconds": self.train_seconds,
            # Sums of other parts have other last digits.
            **({"micro_batches": self.micro_batches} if more else {}),
            **({"best": asdict(self.best), "ended": self.ended} if self.best else {}),
            **since,
        }

    def whole_state(self) -> dict[str, Any]:
        """Returns a state with every tensor that a saved state may have, so that a saved state can
        be read into it."""
        if isinstance(self.optimizer, ClippedAdamW):
            self.optimizer.make_moments()
        weights = {name: weight.clone() for name, weight in self.model.state_dict().items()}
        return self.state_dict() | {"best": {"weights": weights}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resumes from a state saved by `state_dict`.

        Raises:
            Exception: when it is of another training, or was changed.
        """
        if not (state["step"] in range(self.plan.steps + 1) and 0 <= state["train_seconds"] < 1e12):
            raise ValueError(f"it has {state['step']} steps, and the training {self.plan.steps}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = int(state["step"])
        self.train_seconds = state["train_seconds"]
        kept = min(state.get("micro_batches", 1), self.plan.batch_size)
        self.micro_batches = max(self.micro_batches, kept)
        if "best" in state:
            self.best, self.ended = BestWeights(**state["best"]), state["ended"]
        for name in SINCE_EVALUATION:
            if name in state:
                setattr(self, name, state[name])
        if not self.ranks.is_leader:  # whose sum is that of all
            self.loss_sum = torch.zeros_like(self.loss_sum)

    def whole(self) -> AbstractContextManager[None]:
        """Context in which the model has all of its weights; all ranks must enter it together."""
        if isinstance(self.model, Transformer) and self.plan.shards:
            return whole(self.model)
        return nullcontext()

    @property
    def is_over(self) -> bool:
        """True after the last step, after an early stop and after divergence."""
        return self.step == self.plan.steps or bool(self.ended or self.diverged)

    def reset_statistics(self) -> None:
        """Resets what accumulates between evaluations."""
        self.loss_sum, self.loss_steps = torch.zeros_like(self.loss_sum), 0
        self.step_statistics = []

    def restore_best(self) -> bool:
        """Restores the best weights if training stops here; returns True if it did."""
        best, patience, at_horizon = self.best, self.plan.patience, self.step == self.plan.steps
        if best is None or patience is None or not best.evaluations_since:
            return False
        if best.evaluations_since < patience and not at_horizon:
            return False
        self.model.load_state_dict(best.weights)
        self.ended = best.reason(at_horizon=at_horizon)
        return True
