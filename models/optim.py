"""AdamW and Muon by the rules of the roles, and the learning-rate schedule as a pure function."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import Parameter

from fathom.models.building import SearchedModel
from fathom.models.muon import BatchedMuon
from fathom.models.parametrization import MATRICES, OptimizerName, Role, matrices_of, muon_norm

ADAM, MUON = ("step", "exp_avg", "exp_avg_sq"), ("momentum_buffer",)
"""Names of the tensors that the optimizers keep for each weight."""


class ClippedAdamW(torch.optim.AdamW):
    """Fused AdamW that clips gradients while it reads them and lists its tensors only once.

    PyTorch's AdamW lists them again at each step and clips in a separate pass, which takes 1 to 2 %
    of a step of a small model on a CPU. It also imports the compiler at the first call of any of
    its methods, to exempt that method from compiling: two seconds of every worker's start.
    """

    add_param_group = torch.optim.AdamW.add_param_group.__wrapped__  # type: ignore[attr-defined]
    state_dict = torch.optim.AdamW.state_dict.__wrapped__  # type: ignore[attr-defined]

    def __init__(self, groups: list[dict[str, Any]], betas: tuple[float, float]) -> None:
        super().__init__(groups, lr=0.0, betas=betas, fused=True)
        self._moments: list[tuple[list[Tensor], ...]] = []
        self.norms_P: Tensor | None = None
        """Norms (P,) of the last step's gradients before clipping, in the order of the groups."""
        self.names_P: tuple[str, ...] = ()
        """Names of the weights, in the order of the norms."""
        self.rates: Sequence[Tensor] = ()
        """Learning rates of the groups, as scalars that each step reads; if empty, steps use the
        numbers in the groups."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the moments of a state and drops the cached lists of them; settings are its own."""
        _check_moments(state_dict, self.own(self.parameters_P), ADAM)
        own = {"param_groups": ClippedAdamW.state_dict(self)["param_groups"]}
        torch.optim.AdamW.load_state_dict.__wrapped__(self, state_dict | own)  # type: ignore[attr-defined]
        self._moments = []

    @property
    def parameters_P(self) -> list[Tensor]:
        """The weights, of any shapes, in the order of `norms_P`."""
        return [weight for group in self.param_groups for weight in group["params"]]

    @torch.no_grad()
    def clipped_step(self, limit: float) -> None:
        """Takes a step along the gradients, clipped to the norm `limit`, and frees them."""
        self.norms_P = self.norms(self.own(_gradients(self.parameters_P)))
        self.scaled_step((torch.linalg.vector_norm(self.norms_P) / limit).clamp_(min=1.0))

    def own(self, tensors: list[Tensor]) -> list[Tensor]:
        """This process's share of each tensor, of any shape: the whole tensor, since none is
        sharded."""
        return tensors

    def norms(self, gradients: list[Tensor]) -> Tensor:
        """Norms (P,) of the whole gradients, from this process's share of each."""
        return torch.stack(torch._foreach_norm(gradients))

    def scaled_step(self, excess: Tensor) -> None:
        """Takes a step along the gradients, divided by the scalar `excess`, and frees them."""
        gradients = [self.own(_gradients(group["params"])) for group in self.param_groups]
        self.make_moments()
        self._update(gradients, excess)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def make_moments(self) -> None:
        """Makes the moments of all weights, unless they are there."""
        if not self._moments:
            self._moments = [self._moments_of(group["params"]) for group in self.param_groups]

    def _moments_of(self, parameters: list[Tensor]) -> tuple[list[Tensor], ...]:
        states = [self.state[weight] for weight in parameters]
        for weight, state in zip(self.own(parameters), states, strict=True):
            if not state:
                state["step"] = torch.zeros((), device=weight.device)
                state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(weight) for _ in range(2))
        return tuple([state[key] for state in states] for key in ("exp_avg", "exp_avg_sq", "step"))

    def _update(self, gradients: list[list[Tensor]], excess: Tensor) -> None:
        """Updates weights and moments in place, like PyTorch's `step` with `grad_scale`."""
        rates = self.rates or [group["lr"] for group in self.param_groups]
        of_groups = zip(self.param_groups, rates, gradients, self._moments, strict=True)
        for group, rate, group_gradients, (means, squares, steps) in of_groups:
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                self.own(group["params"]),
                group_gradients,
                means,
                squares,
                [],
                steps,
                amsgrad=False,
                lr=rate,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
                grad_scale=excess,
            )


class ShardedAdamW(ClippedAdamW):
    """ClippedAdamW in each of several processes that have a part of every weight (FSDP)."""

    def own(self, tensors: list[Any]) -> list[Tensor]:
        """This process's share of each tensor, of any shape."""
        return [tensor.to_local() for tensor in tensors]

    def norms(self, gradients: list[Tensor]) -> Tensor:
        """Norms (P,) of the whole gradients, from this process's share of each."""
        squares_P = super().norms(gradients).square()
        torch.distributed.all_reduce(squares_P)
        return squares_P.sqrt()

    def state_dict(self) -> dict[str, Any]:
        """The state, with moments sharded as the weights are."""
        state: dict[str, Any] = ClippedAdamW.state_dict(self)
        weights: list[Any] = self.parameters_P
        parted = {
            index: {
                name: moment if name == "step" else _parted_like(weights[index], moment)
                for name, moment in moments.items()
            }
            for index, moments in state["state"].items()
        }
        return state | {"state": parted}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state with sharded moments."""
        parts = {
            index: {
                name: part if name == "step" else part.to_local() for name, part in moments.items()
            }
            for index, moments in state_dict["state"].items()
        }
        super().load_state_dict(state_dict | {"state": parts})


def _parted_like(weight: Any, part: Tensor) -> Tensor:
    """The distributed tensor that is sharded like `weight` and has `part` as this process's
    share."""
    whole: Tensor = weight.from_local(
        part,
        weight.device_mesh,
        weight.placements,
        run_check=False,
        shape=weight.shape,
        stride=weight.stride(),
    )
    return whole


class MuonAdamW:
    """PyTorch's Muon for the matrices of the blocks, and AdamW for all other weights.

    Matrices that one weight holds, such as those of queries, keys and values, are orthogonalised
    one by one. `parts` has views of the matrices for each weight; `groups` are Muon's groups of
    these views.
    """

    def __init__(
        self,
        adamw: ClippedAdamW,
        parts: dict[Parameter, list[Tensor]],
        groups: list[dict[str, Any]],
    ) -> None:
        self._adamw, self._parts = adamw, parts
        self._muon = BatchedMuon(groups, lr=0.0)
        self.norms_P: Tensor | None = None
        """Norms (P,) of the last step's gradients before clipping."""
        self.names_P: tuple[str, ...] = ()
        """Names of the weights, in the order of the norms."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of Muon and of AdamW, with their settings."""
        return [*self._adamw.param_groups, *self._muon.param_groups]

    @property
    def parameters_P(self) -> list[Tensor]:
        """The weights in the order of `norms_P`."""
        return [*self._adamw.parameters_P, *self._parts]

    @torch.no_grad()
    def clipped_step(self, limit: float) -> None:
        """Takes a step along the gradients, clipped to the norm `limit`, and frees them."""
        self.norms_P = torch.stack(torch._foreach_norm(_gradients(self.parameters_P)))
        excess = (torch.linalg.vector_norm(self.norms_P) / limit).clamp_(min=1.0)
        self._adamw.scaled_step(excess)
        for weight, parts in self._parts.items():
            assert weight.grad is not None
            gradients = weight.grad.div_(excess).split_with_sizes([len(part) for part in parts])
            for part, gradient in zip(parts, gradients, strict=True):
                part.grad = gradient
        self._muon.step()
        for weight, parts in self._parts.items():
            weight.grad = None
            for part in parts:
                part.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The states of Muon and of AdamW."""
        return {"adamw": self._adamw.state_dict(), "muon": self._muon.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the moments of Muon and of AdamW; settings are their own."""
        self._adamw.load_state_dict(state_dict["adamw"])
        matrices = [matrix for group in self._muon.param_groups for matrix in group["params"]]
        _check_moments(state_dict["muon"], matrices, MUON)
        own = {"param_groups": self._muon.state_dict()["param_groups"]}
        self._muon.load_state_dict(state_dict["muon"] | own)


Optimizer = ClippedAdamW | MuonAdamW


def _gradients(weights: Iterable[Tensor]) -> list[Any]:
    return [weight.grad for weight in weights]


def build_optimizer(
    model: SearchedModel,
    *,
    weight_decay: float,
    betas: tuple[float, float],
    eps: float,
    name: OptimizerName = OptimizerName.ADAMW,
    sharded: bool = False,
) -> Optimizer:
    """The optimizer of a model; each of its groups has an `lr_scale`, its multiple of the study's
    rate.

    Roles with the same settings share a group. `weight_decay` and `eps` are those of the base
    shape, `betas` the decays of AdamW's moments; `sharded` is for weights of FSDP. PyTorch
    multiplies the decoupled decay by the rate, so a hidden weight's decay grows by the factor by
    which its rate shrinks (the muP row of the table). Vectors are not decayed: gains, biases,
    Admin's omegas, smears.
    """
    members: dict[tuple[float, float, float], list[Parameter]] = {}
    matrices: dict[Parameter, Role] = {}
    for parameter, role, rule in model.weights():
        if name is OptimizerName.MUON and role in MATRICES:
            matrices[parameter] = role
        else:
            settings = (rule.learning_rate, rule.weight_decay, rule.eps)
            members.setdefault(settings, []).append(parameter)
    groups = [
        {
            "params": parameters,
            "lr_scale": lr_scale,
            "weight_decay": weight_decay * decay_scale,
            "eps": eps * eps_scale,
        }
        for (lr_scale, decay_scale, eps_scale), parameters in members.items()
    ]
    adamw = (ShardedAdamW if sharded else ClippedAdamW)(groups, betas)
    optimizer: Optimizer = adamw
    if matrices:
        optimizer = _with_muon(adamw, model, matrices, weight_decay, eps)
    names: dict[Tensor, str] = {weight: name for name, weight in model.named_parameters()}
    optimizer.names_P = tuple(names[weight] for weight in optimizer.parameters_P)
    return optimizer


def _with_muon(
    adamw: ClippedAdamW,
    model: SearchedModel,
    matrices: dict[Parameter, Role],
    weight_decay: float,
    eps: float,
) -> MuonAdamW:
    """AdamW with Muon for the matrices; their decay is divided by `lr_scale`, as Muon multiplies it
    by the rate."""
    parts, members = {}, defaultdict(list)
    shape, of_role = model.shape, matrices_of(model.shape)
    for weight, role in matrices.items():
        # A weight of a user's own model is one matrix; experts and groups repeat their rows.
        rows = [len(weight)] if shape.own_counts else [n // shape.groups for n in of_role[role][0]]
        rows *= len(weight) // sum(rows)
        parts[weight] = list(weight.detach().split_with_sizes(rows))
        for part in parts[weight]:
            members[muon_norm(model.parametrization, role, *part.shape)].append(part)
    groups = [
        {"params": of_norm, "lr_scale": scale, "weight_decay": weight_decay / scale, "eps": eps}
        for scale, of_norm in members.items()
    ]
    return MuonAdamW(adamw, parts, groups)


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Sets the rate of each group to its `lr_scale` times `learning_rate`, the study's rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["lr_scale"]


def rate_at(step: int, *, steps: int, warmup_steps: int, cooldown_steps: int) -> float:
    """Share of the peak rate at `step` of `steps`, from 0: linear warm-up, constant, linear
    cool-down, which take `warmup_steps` and `cooldown_steps`.

    The rate stays constant up to the cool-down so that losses before it can be compared between
    trials of one horizon (Hägele et al. 2024, arXiv 2405.18392).

    >>> [rate_at(step, steps=6, warmup_steps=2, cooldown_steps=1) for step in range(6)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    remaining = steps - step
    return min(1.0, remaining / (cooldown_steps + 1))


def _check_moments(state: dict[str, Any], weights: list[Tensor], names: tuple[str, ...]) -> None:
    """Raises `ValueError` for a state with other moments than `names`, or of other shapes than the
    weights', which a fused step would not notice."""
    for index, moments in state["state"].items():
        shapes = {name: torch.Size() if name == "step" else weights[index].shape for name in names}
        known = {name: moment.shape for name, moment in moments.items() if not moment.is_meta}
        if known != shapes:
            raise ValueError(f"the moments of weight {index} must have the shapes {shapes}")
