"""Values of serving: a request, and the time and memory of each shape."""

from dataclasses import dataclass

from fathom.models.inference import cache_bytes, weight_bytes
from fathom.models.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Number of prompts that a model answers together, and lengths of prompt and answer."""

    batch: int
    """Number of prompts answered together."""
    prompt: int
    """Tokens of each prompt."""
    tokens: int
    """Tokens of each answer."""

    @property
    def length(self) -> int:
        """Tokens of a prompt with its answer."""
        return self.prompt + self.tokens


@dataclass(frozen=True, slots=True)
class Duration:
    """A time, with the standard error of its measurement or its estimate."""

    seconds: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeTimes:
    """Inference times of a shape."""

    shape: Shape
    prefill: Duration
    """Time to read the prompts, up to the first token of each answer."""
    token: Duration
    """Time of each further token, for all prompts together, averaged over the answer."""
    measured: bool
    """False if the times are interpolated between those of other shapes, or from a data sheet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Times of the shapes of a budget, and the device on which they were measured or for which they
    are estimated."""

    budget: int
    request: Request
    number: int
    """Bytes of a weight and of a number in the cache."""
    device: str
    """Device, threads and clock, or the data sheet, as text."""
    times: tuple[ShapeTimes, ...]
    """Times of the shapes, by ascending depth."""
    model_error: float | None
    """Largest relative error of interpolated times, with each shape left out in turn; None with
    fewer than five measured shapes."""

    def weight_bytes(self, shape: Shape) -> int:
        """Bytes of the weights of a shape."""
        return weight_bytes(shape, self.number)

    def cache_bytes(self, shape: Shape) -> int:
        """Bytes of cached keys and values at the end of the request."""
        request = self.request
        return cache_bytes(
            shape, sequences=request.batch, tokens=request.length, number=self.number
        )

    def throughput(self, times: ShapeTimes) -> float:
        """Tokens a second of all answers together, prefill included."""
        request = self.request
        seconds = times.prefill.seconds + (request.tokens - 1) * times.token.seconds
        return request.batch * request.tokens / seconds
