"""Greedy decoding: the model always takes the most likely token."""

from collections.abc import Sequence

import torch

from fathom.objectives.contract import Model


@torch.no_grad()
def greedy(
    model: Model, prompt: Sequence[int], *, end: int, context: int, device: torch.device
) -> list[int]:
    """Decoded tokens after the prompt, without the end token; fewer if the context is full."""
    tokens = list(prompt)
    while len(tokens) <= context:
        logits_1TV = model(torch.tensor([tokens], device=device))
        following = int(logits_1TV[0, -1].argmax())
        if following == end:
            break
        tokens.append(following)
    return tokens[len(prompt) :]
