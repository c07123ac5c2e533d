"""A user's own model, from a function that builds it for a shape: counted, tried out and trained.

Shapes: B batch, T time, V vocabulary.
"""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

from fathom.models.parametrization import Role, Rule, rules
from fathom.models.recipe import OwnModelError, OwnRecipe
from fathom.models.shape import OwnCounts, Shape

TRIED_LOGITS = 2**20
"""Most logits of a sequence with which a model is tried out."""
AS_BUILT = (Role.NORM, Role.OUTER_NORM, Role.BIAS, Role.SKIP, Role.SMEAR, Role.STATE)
"""Roles whose weights start as the function leaves them."""


class OwnModel(nn.Module):
    """A user's module as the model of a shape: tokens (B, T) to logits (B, T, V).

    Raises:
        OwnModelError: when the function builds no such model, or one of another size.
    """

    computes_loss = False
    """False: a call returns the logits of all tokens."""
    recomputes = False
    """False: layers are never computed again."""

    def __init__(self, shape: Shape, recipe: OwnRecipe, *, seed: int, device: torch.device) -> None:
        super().__init__()
        self.shape, self.parametrization, self._recipe = shape, recipe.parametrization, recipe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.inner = built(recipe, shape)
        self._check_weights()
        self._initialise(torch.Generator().manual_seed(seed))
        self.to(device)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits (B, T, V), also if the module returns an object that holds them."""
        returned = self.inner(tokens_BT)
        logits_BTV = getattr(returned, "logits", returned)
        wanted = (*tokens_BT.shape, self.shape.vocab_size)
        if not isinstance(logits_BTV, Tensor) or logits_BTV.shape != wanted:
            is_tensor = isinstance(logits_BTV, Tensor)
            got = list(logits_BTV.shape) if is_tensor else f"a {type(logits_BTV).__name__}"
            raise OwnModelError(
                f"the model of {self._recipe.place} must return logits (batch, time, vocabulary), "
                f"{list(wanted)}, got {got}"
            )
        return logits_BTV

    def weights(self) -> Iterator[tuple[Parameter, Role | None, Rule]]:
        """Yields each trained weight, its role and its rule; vectors without a role don't decay."""
        by_role = rules(self.parametrization, self.shape)
        for name, parameter in trained(self.inner).items():
            role = self._recipe.role_of(name)
            plain = Rule(0.0, weight_decay=float(parameter.ndim > 1))
            yield parameter, role, by_role[role] if role else plain

    def _check_weights(self) -> None:
        weights, place = trained(self.inner), self._recipe.place
        for name, parameter in weights.items():
            if parameter.dtype != torch.float32 or parameter.device.type == "meta":
                raise OwnModelError(
                    f"weights of {place} must be float32 and not on the meta device, got "
                    f"{parameter.dtype} on {parameter.device} for {name}"
                )
        total, counts = sum(weight.numel() for weight in weights.values()), self.shape.own_counts
        if counts and total != counts.total:
            raise OwnModelError(
                f"the model of {place} must have the {counts.total:,} parameters that were counted "
                f"for {sizes(self.shape)}, got {total:,}; its size must follow from its arguments "
                "alone"
            )

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Draws the weights that have a role, by its rule."""
        by_role = rules(self.parametrization, self.shape)
        for name, parameter in trained(self.inner).items():
            role = self._recipe.role_of(name)
            if role and role not in AS_BUILT:
                parameter.normal_(0.0, by_role[role].init_std, generator=generator)


def built(recipe: OwnRecipe, shape: Shape) -> nn.Module:
    """The user's module for a shape, on torch's current default device.

    Raises:
        OwnModelError: if the function fails or returns no module with trained parameters.
    """
    with _own_code(f"{recipe.place} must build a model of {sizes(shape)}"):
        module: nn.Module = recipe.function(**recipe.arguments(shape))
        _check_module(module, recipe.place)
    return module


def _check_module(module: Any, place: str) -> None:
    if not isinstance(module, nn.Module):
        raise OwnModelError(
            f"{place} must return a torch.nn.Module, got a {type(module).__name__}; return the "
            "model itself"
        )
    weights = trained(module)
    if not weights:
        raise OwnModelError(
            f"the model of {place} must have trained parameters, got none; leave `requires_grad` "
            "on for those to train"
        )
    if lazy := [name for name, weight in weights.items() if is_lazy(weight)]:
        raise OwnModelError(
            f"weights of {place} must have their sizes when it returns, and {lazy[0]} has none "
            "before the first call; give both sizes (nn.Linear in place of nn.LazyLinear)"
        )


@contextmanager
def _own_code(rule: str) -> Iterator[None]:
    """Context for a user's code: any exception of it except Ctrl-C becomes an error of one line."""
    try:
        yield
    except (OwnModelError, KeyboardInterrupt):
        raise
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join("".join(traceback.format_exception_only(error)).split())
        raise OwnModelError(
            f"{rule}, got {reason} at {frame.filename}, line {frame.lineno}; fix it there"
        ) from error


def trained(module: nn.Module) -> dict[str, Parameter]:
    """Trained weights of a module by name; a shared weight has one name."""
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


def sizes(shape: Shape) -> str:
    """Depth and widths of a shape, as messages say them."""
    return f"depth {shape.depth}, d_model {shape.d_model}, d_ff {shape.d_ff}"


def embeddings(recipe: OwnRecipe, shape: Shape) -> frozenset[str]:
    """Names, without numbers of layers, of the weights whose size follows the vocabulary or the
    context."""
    larger = replace(shape, vocab_size=shape.vocab_size + 1, context=shape.context + 1)
    with torch.device("meta"):
        shapes, others = (
            {name: weight.shape for name, weight in trained(built(recipe, tried)).items()}
            for tried in (shape, larger)
        )
    differ = (name for name in shapes if name in others and shapes[name] != others[name])
    return frozenset(map(_numberless, differ))


def count(recipe: OwnRecipe, shape: Shape, outside: frozenset[str]) -> OwnCounts:
    """Counts of the model of a shape, built on the meta device; `outside` are the names that
    `embeddings` returns."""
    with torch.device("meta"):
        module = built(recipe, shape)
    weights = trained(module)
    for name in weights:
        recipe.role_of(name)  # refuses a weight without one
    inside = (weight for name, weight in weights.items() if _numberless(name) not in outside)
    return OwnCounts(
        total=sum(weight.numel() for weight in weights.values()),
        non_embedding=sum(weight.numel() for weight in inside),
        saved_bytes=_saved_bytes(module, shape),
    )


def try_out(recipe: OwnRecipe, shape: Shape, *, causal: bool) -> None:
    """Builds the model of a small shape on the CPU and computes one gradient.

    Raises:
        OwnModelError: if it can't be trained or, with `causal`, its logits depend on later tokens.
    """
    cpu = torch.device("cpu")
    model, again = (OwnModel(shape, recipe, seed=0, device=cpu) for _ in range(2))
    place, pairs = recipe.place, zip(model.parameters(), again.parameters(), strict=True)
    if not all(torch.allclose(*pair, rtol=0, atol=0, equal_nan=True) for pair in pairs):
        raise OwnModelError(
            f"{place} must build the same weights from the same seed, but they differ; draw them "
            "with torch's global generator alone"
        )
    other = OwnModel(shape, recipe, seed=1, device=cpu)
    if _drawn_alike(model, other):
        raise OwnModelError(
            f"{place} must build other weights for another seed, got equal ones; leave out "
            "torch.manual_seed, since each trial seeds the generator"
        )
    length = max(2, min(shape.context, TRIED_LOGITS // shape.vocab_size))
    ids = torch.arange(2 * length).view(2, length) % shape.vocab_size
    logits = _tried(model, ids)
    if not logits.isfinite().all():
        raise OwnModelError(
            f"the model of {place} must start with finite logits, got some that are not, with "
            f"{sizes(shape)}; check its initial weights"
        )
    with _own_code(f"the model of {place} must give gradients"):
        logits.logsumexp(-1).mean().backward()  # type: ignore[no-untyped-call]
    idle = [name for name, weight in trained(model.inner).items() if weight.grad is None]
    if idle:
        raise OwnModelError(
            f"every trained weight of {place} must take part in the logits, and {idle[0]} gets no "
            "gradient; drop it, or `requires_grad_(False)`"
        )
    if causal:
        _check_causal(model.eval(), ids, place)


@torch.no_grad()
def _drawn_alike(model: OwnModel, other: OwnModel) -> bool:
    """True if two models have equal weights, and not merely because each tensor has a single
    value."""
    pairs = list(zip(model.parameters(), other.parameters(), strict=True))
    alike = all(torch.allclose(*pair, rtol=0, atol=0, equal_nan=True) for pair in pairs)
    return alike and any(weight.numel() > 1 and bool(weight.std() > 0) for weight, _ in pairs)


@torch.no_grad()
def _check_causal(model: OwnModel, ids: Tensor, place: str) -> None:
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % model.shape.vocab_size
    before, after = _tried(model, ids)[:, :-1], _tried(model, changed)[:, :-1]
    if not torch.allclose(before, after, rtol=1e-3, atol=1e-5):
        raise OwnModelError(
            f"the model of {place} must predict from earlier tokens alone, and its logits change "
            "with a later one; give its attention a causal mask"
        )


def _tried(model: OwnModel, ids: Tensor) -> Tensor:
    """Logits of `ids`; an exception of the user's code becomes an error of one line."""
    with _own_code(f"the model of {model._recipe.place} must map ids {list(ids.shape)} to logits"):
        logits: Tensor = model(ids)
    return logits


def _saved_bytes(module: nn.Module, shape: Shape) -> int:
    """Bytes that autograd keeps of a sequence in float32; an estimate for a usual block if the
    module can't be called on the meta device."""
    kept: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    ids = torch.zeros(1, shape.context, dtype=torch.int64, device="meta")
    try:
        with torch.device("meta"), saved_tensors_hooks(keep, lambda tensor: tensor):
            output = module(ids)
        del output
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - of the user, and to run on real devices only
        return 4 * shape.context * shape.depth * (16 * shape.d_model + 4 * shape.d_ff)
    weights = {weight.untyped_storage()._cdata for weight in module.parameters()}
    return sum(storage.nbytes() for key, storage in kept.items() if key not in weights)


def _numberless(name: str) -> str:
    """A weight's name with 0 for each number, so that it is the same in every layer."""
    return re.sub(r"\d+", "0", name)
