"""Compares the seconds that trials trained with those planned, in a study with `train_seconds`."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fathom.models.spend import Coin
from fathom.search.records import SEVERAL, TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSeconds:
    """Seconds of training steps that the finished trials of a budget took."""

    asked: float
    """Seconds that each training was to take."""
    devices: tuple[str, ...]
    """Names of the devices that trained the trials, sorted."""
    trials: int
    median: float
    """Median over trials, in seconds."""
    worst: float
    """Seconds of the trial that was furthest from `asked`."""

    @property
    def median_off(self) -> float:
        """Relative difference of `median` from `asked`."""
        return self.median / self.asked - 1

    @property
    def worst_off(self) -> float:
        """Relative difference of `worst` from `asked`."""
        return self.worst / self.asked - 1


def measured_seconds(records: Sequence[TrialRecord]) -> MeasuredSeconds | None:
    """Seconds of a budget's trials that trained to the end; None if the study does not set seconds,
    or no trial trained to the end."""
    whole = [r for r in records if r.loss is not None and r.tokens == r.spec.horizon_tokens]
    asked = next((record.spec.spend for record in whole), None)
    if asked is None or asked.coin is not Coin.SECONDS:
        return None
    seconds = [record.train_seconds for record in whole]
    return MeasuredSeconds(
        asked=asked.amount,
        devices=tuple(
            sorted({name for record in whole for name in record.device.split(SEVERAL) if name})
        ),
        trials=len(seconds),
        median=median(seconds),
        worst=max(seconds, key=lambda time: abs(time - asked.amount)),
    )
