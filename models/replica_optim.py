"""AdamW for replicas: one step for all, with each one's own rate, moments and clipping."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from fathom.models.network.transformer import Transformer
from fathom.models.replicas import Replicas

SETTINGS = ("lr_scale", "weight_decay", "eps")
"""Keys of the settings by which the groups of a model's optimizer differ."""
MOMENTS = ("exp_avg", "exp_avg_sq")
"""AdamW's running means, by their names in its state."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Names and groups of the weights in the optimizer of a single model."""

    names: tuple[str, ...]
    """Names of the weights in the order of their numbers in the optimizer's state."""
    groups: tuple[dict[str, Any], ...]
    """`param_groups` of the optimizer's `state_dict`."""

    @classmethod
    def of(cls, model: Transformer, optimizer: torch.optim.Optimizer) -> Self:
        """The pattern of a single model and its optimizer."""
        by_weight = {id(weight): name for name, weight in model.named_parameters()}
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        return cls(
            names=tuple(by_weight[id(weight)] for weight in weights),
            groups=tuple(optimizer.state_dict()["param_groups"]),
        )


@dataclass(frozen=True, slots=True)
class ParameterPart:
    """Neighbouring replicas of one rate in a stacked weight; one parameter to AdamW."""

    field: str
    rows: slice
    weight: Tensor


class ReplicaAdamW:
    """The optimizer of a single model for each replica, in as few launches as possible.

    There is one group per rate of neighbouring replicas and set of settings, since each group costs
    a launch.
    """

    def __init__(
        self,
        model: Replicas,
        pattern: Pattern,
        rates: Sequence[float],
        *,
        betas: tuple[float, float],
    ) -> None:
        self._model, self._pattern, self._rates = model, pattern, rates
        stacked = {field: weight.detach() for field, weight in model.stacked.items()}
        self._moments = {
            key: {field: torch.zeros_like(weight) for field, weight in stacked.items()}
            for key in MOMENTS
        }
        self._parts: list[ParameterPart] = []
        groups = []
        for settings, fields in _fields_by_settings(pattern, model).items():
            for rows in _runs(rates):
                parts = [ParameterPart(field, rows, stacked[field][rows]) for field in fields]
                self._parts += parts
                group = dict(zip(SETTINGS, settings, strict=True)) | {"rate": rates[rows.start]}
                groups.append({"params": [part.weight for part in parts], **group})
        self._adamw = torch.optim.AdamW(groups, lr=0.0, betas=betas, fused=True)
        for part in self._parts:
            moments = {key: self._moments[key][part.field][part.rows] for key in MOMENTS}
            step = torch.zeros((), device=part.weight.device)
            self._adamw.state[part.weight] = {"step": step, **moments}
        self._norms: dict[str, Tensor] = {}

    def set_share(self, share: float) -> None:
        """Sets the rate of each group to its multiple of this share of its replicas' peak rate."""
        for group in self._adamw.param_groups:
            group["lr"] = group["rate"] * share * group["lr_scale"]

    def step(self, *, grad_clip: float) -> None:
        """Clips each replica's gradient by its own norm, updates weights and frees gradients."""
        every = {field: weight.grad for field, weight in self._model.stacked.items()}
        gradients = {field: grad for field, grad in every.items() if grad is not None}
        norms = clip(list(gradients.values()), grad_clip)
        self._norms = dict(zip(gradients, norms, strict=True))
        for part in self._parts:
            part.weight.grad = gradients[part.field][part.rows]
        self._adamw.step()
        self._model.zero_grad(set_to_none=True)

    def norms_of(self, replica: int) -> Tensor:
        """Norms (P,) of a replica's last gradients before clipping, in a single model's order."""
        slots = (self._model.slots[name] for name in self._pattern.names)
        own = ((self._norms[slot.field][replica], slot.layer) for slot in slots)
        norms = [norms_X if layer is None else norms_X[layer] for norms_X, layer in own]
        return torch.stack([torch.linalg.vector_norm(one) for one in norms])

    def state_of(self, replica: int, *, step: int, share: float) -> dict[str, Any]:
        """The `state_dict` of a single model's optimizer after so many steps."""
        rate = self._rates[replica] * share
        groups = [group | {"lr": rate * group["lr_scale"]} for group in self._pattern.groups]
        if not step:
            return {"state": {}, "param_groups": groups}
        moments = {key: self._model.state_of(replica, self._moments[key]) for key in MOMENTS}
        device = self._parts[0].weight.device
        state = {
            number: {"step": torch.tensor(float(step), device=device)}
            | {key: moments[key][name] for key in MOMENTS}
            for number, name in enumerate(self._pattern.names)
        }
        return {"state": state, "param_groups": groups}

    def load_state_of(self, replica: int, state: Mapping[str, Any], *, step: int) -> None:
        """Loads a single model's moments; the number of steps is the same for all replicas."""
        for own in self._adamw.state.values():
            own["step"].fill_(step)
        for key in MOMENTS if step else ():
            moments = {
                name: state["state"][number][key] for number, name in enumerate(self._pattern.names)
            }
            self._model.load_state_of(replica, moments, self._moments[key])


def clip(gradients: Sequence[Tensor], most: float) -> list[Tensor]:
    """Scales each replica's gradient to a norm of at most `most`, as `clip_grad_norm_` does.

    Returns the norms before clipping: (R, L) for blocks, else (R, size of the first dimension).
    """
    norms = [_norms(one) for one in gradients]
    norm_R = torch.linalg.vector_norm(torch.cat(norms, dim=1), dim=1)
    scale_R = (most / (norm_R + 1e-6)).clamp(max=1.0)
    for one in gradients:
        one.mul_(scale_R.view(-1, *[1] * (one.dim() - 1)))
    return norms


def _norms(gradient: Tensor) -> Tensor:
    """Norms (R, X) over all dimensions but the replicas' and the one after it."""
    gradient_RXY = gradient.flatten(2) if gradient.dim() > 2 else gradient[:, None]
    norms_RX: Tensor = torch.linalg.vector_norm(gradient_RXY, dim=2)
    return norms_RX


def _fields_by_settings(pattern: Pattern, model: Replicas) -> dict[tuple[float, ...], list[str]]:
    fields: dict[tuple[float, ...], dict[str, None]] = {}
    for group in pattern.groups:
        settings = tuple(group[key] for key in SETTINGS)
        names = (pattern.names[number] for number in group["params"])
        own = dict.fromkeys(model.slots[name].field for name in names)
        fields.setdefault(settings, {}).update(own)
    return {settings: list(own) for settings, own in fields.items()}


def _runs(rates: Sequence[float]) -> Iterator[slice]:
    """Slices of neighbouring replicas that share a rate, in order."""
    for _, run in itertools.groupby(range(len(rates)), key=rates.__getitem__):
        first, *others = run
        yield slice(first, first + 1 + len(others))
