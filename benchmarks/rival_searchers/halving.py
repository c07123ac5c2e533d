"""The early stopping of Ray Tune and of Optuna by itself: their own classes, without a searcher."""

from typing import Any, Protocol

import optuna
from optuna.pruners import SuccessiveHalvingPruner
from optuna.trial import TrialState
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, TrialScheduler


class Stopper(Protocol):
    """Stops a trial for good, or lets it train on; it never pauses one."""

    def goes_on(self, trial: int, tokens: int, loss: float) -> bool:
        """Reports a loss in nats; False if the trial is stopped, or has come to the horizon."""


class RayStopper:
    """Ray Tune's `ASHAScheduler`: a first rung and a horizon in tokens, defaults otherwise."""

    def __init__(self, first: int, horizon: int, eta: float) -> None:
        self._scheduler: Any = ASHAScheduler(
            time_attr="tokens",
            metric="loss",
            mode="min",
            max_t=horizon,
            grace_period=first,
            reduction_factor=eta,
        )
        self._trials: dict[int, Trial] = {}

    def goes_on(self, trial: int, tokens: int, loss: float) -> bool:
        """Reports a loss as Tune does."""
        if trial not in self._trials:
            self._trials[trial] = Trial("replayed", trial_id=str(trial), stub=True)
            self._scheduler.on_trial_add(None, self._trials[trial])
        result = {"tokens": tokens, "loss": loss}
        decision = self._scheduler.on_trial_result(None, self._trials[trial], result)
        return bool(decision == TrialScheduler.CONTINUE)


class OptunaStopper:
    """Optuna's `SuccessiveHalvingPruner` on a study in memory; its `eta` is a whole number."""

    def __init__(self, first: int, horizon: int, eta: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        pruner = SuccessiveHalvingPruner(min_resource=first, reduction_factor=eta)
        self._study, self._horizon = optuna.create_study(pruner=pruner), horizon
        self._trials: dict[int, optuna.Trial] = {}

    def goes_on(self, trial: int, tokens: int, loss: float) -> bool:
        """Reports a loss as a user's loop of ask and tell does."""
        if trial not in self._trials:
            self._trials[trial] = self._study.ask()
        asked = self._trials[trial]
        asked.report(loss, tokens)
        if tokens >= self._horizon:
            self._study.tell(asked, loss)
            return False
        if asked.should_prune():
            self._study.tell(asked, state=TrialState.PRUNED)
            return False
        return True
