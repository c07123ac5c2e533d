"""The weights of the lowest held-out loss, for trainings that end when it rises. Torch only."""

from dataclasses import dataclass, replace

from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The best evaluation so far."""

    step: int
    loss: float
    """Held out, nats per token."""
    weights: dict[str, Tensor]
    """A copy of the model's `state_dict`."""
    since: int = 0
    """Evaluations since."""

    def reason(self, *, horizon: bool) -> str:
        """Why a training that goes back to these weights has ended, in words."""
        end = "trained to the horizon" if horizon else "ended as its held-out loss fell no more"
        return f"{end}: the weights of step {self.step}, {self.since} evaluations before, were kept"


def kept_after(kept: Kept | None, model: nn.Module, *, step: int, loss: float) -> Kept:
    """What is kept after an evaluation."""
    if kept is not None and loss >= kept.loss:
        return replace(kept, since=kept.since + 1)
    copies = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    return Kept(step=step, loss=loss, weights=copies)
