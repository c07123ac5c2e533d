"""Early stopping on the held-out loss, which restores the best weights. Torch only."""

from dataclasses import dataclass, replace

from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class BestWeights:
    """The weights with the lowest held-out loss so far."""

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


def updated(best: BestWeights | None, model: nn.Module, *, step: int, loss: float) -> BestWeights:
    """The best weights after one more evaluation of the model."""
    if best is not None and loss >= best.loss:
        return replace(best, evaluations_since=best.evaluations_since + 1)
    copies = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    return BestWeights(step=step, loss=loss, weights=copies)
