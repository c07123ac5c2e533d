"""A whole training step on fixed buffers, so that a GPU can replay all its launches as one CUDA
graph.

Launches take most of the step of a small model on a GPU. A graph of all of them, from the forward
pass to the optimizer's update, compiled or not, is recorded in a moment. The batch and the learning
rate, which change from step to step, are written to the same buffers each time. Without a GPU the
same step is computed on the same buffers. Torch only.

Shapes: G groups of the optimizer.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from fathom.models.network.transformer import Transformer
from fathom.models.optim import ClippedAdamW
from fathom.models.parametrization import OptimizerName
from fathom.objectives.contract import Batch
from fathom.search.training.state import Training, TrainPlan

WARM_PASSES = 2
"""Number of forward and backward passes before recording, during which libraries allocate memory
that they keep."""

Backward = Callable[[Training, Batch], Tensor]
"""Function that computes a training's gradients of a batch and returns the batch's mean loss."""


def obstacle_of_plan(plan: TrainPlan) -> str:
    """Reason in its plan why the steps of a training can't be recorded; empty if there is none."""
    reasons = {
        "they have dropout": plan.dropout > 0,
        "they have auto-sizing": plan.auto_sizing is not None,
        "Muon trains them": plan.optimizer is OptimizerName.MUON,
    }
    return next((reason for reason, there in reasons.items() if there), "")


def obstacle(training: Training) -> str:
    """Reason why the steps of a training can't be recorded; empty if they can."""
    reasons = {
        "a step has several processes": training.ranks.size > 1,
        "a step has micro-batches": training.micro_batches > 1,
        "the model is a user's own": not isinstance(training.model, Transformer),
    }
    own = next((reason for reason, there in reasons.items() if there), "")
    return own or obstacle_of_plan(training.plan)


class RecordedStep:
    """A recorded step of one training; call it with the training, a batch and the learning rate.

    It has no reference to the training, which refers to it, so both are freed as soon as the
    training ends.
    """

    def __init__(self, training: Training, first: Batch, backward: Backward) -> None:
        """`first` is a batch with the sizes of those to come."""
        assert isinstance(training.optimizer, ClippedAdamW), "see `obstacle`"
        self._optimizer, self._backward = training.optimizer, backward
        sources = None if first.sources is None else first.sources.clone()
        self._batch = Batch(first.inputs.clone(), first.targets.clone(), sources)
        device = training.device
        scales = [group["lr_scale"] for group in self._optimizer.param_groups]
        self._scales_G = torch.tensor(scales, dtype=torch.float64, device=device)
        self._rate = torch.zeros((), dtype=torch.float64, device=device)
        # A GPU's kernel reads a float32; that of a CPU has the precision of a Python number.
        on_gpu = device.type == "cuda"
        precision = torch.float32 if on_gpu else torch.float64
        self._rates_G = torch.zeros_like(self._scales_G, dtype=precision)
        self._optimizer.rates = self._rates_G.unbind()
        self._optimizer.make_moments()  # recorded, each step would make them again
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss = self._rate
        """The loss of the last step, in the buffer that the graph writes it to."""

    def __call__(self, training: Training, batch: Batch, rate: float) -> Tensor:
        """Takes a step at learning rate `rate`; returns the mean loss, in a buffer that the next
        step may overwrite."""
        self._rate.fill_(rate)
        if not self._holds(batch):  # of another size, it is computed without the graph
            return self._step(training, batch)
        for buffer, given in zip(self._batch, batch, strict=True):
            if buffer is not None and given is not None:
                buffer.copy_(given, non_blocking=True)
        if self._graph is None:
            return self._step(training, self._batch)
        self._graph.replay()
        return self._loss

    def _holds(self, batch: Batch) -> bool:
        """True if the buffers have the same sizes as a batch."""
        ours, given = (
            [None if tensor is None else tensor.shape for tensor in tensors]
            for tensors in (self._batch, batch)
        )
        return ours == given

    def _step(self, training: Training, batch: Batch) -> Tensor:
        self._rates_G.copy_(self._scales_G * self._rate)
        loss = self._backward(training, batch)
        self._optimizer.clipped_step(training.plan.grad_clip)
        return loss

    def record(self, training: Training) -> None:
        """Records the launches of a step on a GPU without carrying them out; changes no weight.

        Raises:
            RuntimeError: when CUDA can't record something in the step.
        """
        if not self._rate.is_cuda:
            return
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_PASSES):
                self._backward(training, self._batch)
                training.model.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._loss = self._step(training, self._batch)
        self._graph = graph

    def undo(self, training: Training) -> None:
        """Undoes what recording has changed in the training."""
        self._optimizer.rates = ()
        training.model.zero_grad(set_to_none=True)


def recorded_step(training: Training, first: Batch, backward: Backward) -> RecordedStep | None:
    """The recorded step of a training; None if it can't be recorded.

    A warning says why it can't, except for a known obstacle where the study left the choice to
    Fathom.
    """
    reason = obstacle(training)
    if reason and training.plan.may_be_eager:
        return None
    if not reason:
        step = RecordedStep(training, first, backward)
        try:
            step.record(training)
        except RuntimeError as error:  # for which CUDA has no type; a lack of memory is one as well
            reason = str(error).splitlines()[0]
            step.undo(training)
        else:
            return step
    warnings.warn(f"steps are not recorded as a graph: {reason}", stacklevel=2)
    return None
