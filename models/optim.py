"""AdamW with one parameter group a role, and the learning-rate schedule as a pure function."""

import torch

from models.parametrization import Role, rules
from models.transformer import Transformer, role_of


def build_optimizer(
    model: Transformer,
    *,
    weight_decay: float,
    betas: tuple[float, float],
    eps: float,
) -> torch.optim.AdamW:
    """AdamW whose groups carry `lr_scale`, the multiple of the study's rate that each role gets.

    Decay is decoupled but multiplied by the rate in PyTorch, so a hidden weight's decay grows by
    what its rate shrinks (the muP row of the table). Gains are not decayed.
    """
    by_role = rules(model.parametrization, model.shape)
    members: dict[Role, list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        members.setdefault(role_of(name), []).append(parameter)
    groups = [
        {
            "params": parameters,
            "lr_scale": by_role[role].learning_rate,
            "weight_decay": weight_decay * by_role[role].weight_decay,
            "eps": eps * by_role[role].eps,
        }
        for role, parameters in members.items()
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=betas, fused=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Give each group its multiple of the study's rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["lr_scale"]


def rate_at(step: int, *, steps: int, warmup_steps: int, cooldown_steps: int) -> float:
    """Share of the peak rate at a step, counted from 0: linear warm-up, constant, linear cool-down.

    The rate stays constant up to the cool-down so that losses before it can be compared between
    trials of one horizon (Hägele et al. 2024, arXiv 2405.18392).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    remaining = steps - step
    return min(1.0, remaining / (cooldown_steps + 1))
