"""Values of the verdict on a budget: its kind, its cause, and the remedy."""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from fathom.models.spend import Coin
from fathom.search.analysis.losses.stalls import SeedApart
from fathom.search.records import Outcome

PLATEAU_WIDTH = 0.005
"""Width of a plateau, nats: losses closer than this are the same for practical purposes."""


class Kind(StrEnum):
    """Kind of a verdict, by how far the answer can be relied on."""

    IDENTIFIED = "identified"
    PLATEAU = "plateau"
    EDGE = "edge"
    INSUFFICIENT = "insufficient"
    UNFINISHED = "unfinished"
    BY_LAW = "by_law"
    """The depth is predicted by a law from other sizes. No budget has this verdict or the two
    below."""
    NO_ANSWER = "no_answer"
    PLANNED = "planned"

    @property
    def settled(self) -> bool:
        """True if the verdict names the best depth or depths, so that no training is needed."""
        return self in (Kind.IDENTIFIED, Kind.PLATEAU)

    @property
    def decided(self) -> bool:
        """True if the interval rules depths out: a settled answer, or an edge."""
        return self.settled or self is Kind.EDGE


@dataclass(frozen=True, slots=True)
class NarrowInterval:
    """The interval names a depth and ends inside the depths that finished."""

    interval: tuple[int, int]
    tested: tuple[int, int]
    """The shallowest and the deepest depth that finished."""


@dataclass(frozen=True, slots=True)
class Flat:
    """Depths between which the choice costs little."""

    depths: tuple[int, int]
    """The shallowest and the deepest tested one of these depths."""
    most: float
    """Highest upper end of the 95 % intervals of these depths' costs compared with `answer`,
    nats."""
    answer: int
    """The finished depth that is expected to cost least."""
    shallowest: int
    """The shallowest depth of the plateau that finished, the cheapest to serve."""


class FlatRange(Flat):
    """The tested range is flat: the depths of the plateau differ by next to nothing."""


class FlatInterval(Flat):
    """No depth of the interval can be named as the best, but none of them is much worse than the
    best."""


@dataclass(frozen=True, slots=True)
class BestAtEnd:
    """The best depth may lie beyond an end of the tested depths, where nothing was trained."""

    end: int
    deeper: bool


@dataclass(frozen=True, slots=True)
class NothingShallower:
    """The best depth is the fewest layers that such a model can have."""

    depth: int


@dataclass(frozen=True, slots=True)
class NoneFinishedBeyond:
    """The best depth may lie beyond an end of the tested depths, where no trial finished."""

    end: int
    outcomes: tuple[tuple[Outcome, int], ...]
    """Outcomes of the trials beyond `end`, with the number of each."""


@dataclass(frozen=True, slots=True)
class TooFewDepths:
    """Fewer than three depths finished."""

    finished: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TooFewSizes:
    """Three depths of a budget with free size finished, but too few sizes to fit the loss over
    both."""

    finished: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoiseUnknown:
    """The noise was not measured: no shape has two seeds whose losses differ."""


@dataclass(frozen=True, slots=True)
class Confounded:
    """Another setting of the trainings varies with depth, and may be the cause of the differences
    in loss."""

    setting: str
    values: tuple[tuple[str, tuple[int, ...]], ...]
    """Values of the setting, each with the depths that were trained at it."""


@dataclass(frozen=True, slots=True)
class FewRuns:
    """Most runs about the size have no loss at the horizon."""

    counted: int
    runs: int


@dataclass(frozen=True, slots=True)
class UnknownSettings:
    """Runs of one depth differ by more than seeds do, so settings that the table lacks differ."""

    within: float
    """Standard deviation between runs of a depth, nats."""
    between: float
    """Standard deviation between depths, nats."""


@dataclass(frozen=True, slots=True)
class BelowMeasured:
    """The curve falls far below the measured losses, and no measurement confirms it."""

    depth: int
    loss: float
    """Loss that the curve has at `depth`, nats."""
    lowest: float
    """Lowest measured loss of a depth, nats."""


@dataclass(frozen=True, slots=True)
class NoiseHidesDepth:
    """The noise between seeds hides the effect of depth."""

    noise: float
    """Standard deviation between seeds, nats."""


@dataclass(frozen=True, slots=True)
class RatioHidesDepth:
    """The feed-forward ratio changes the loss by as much as depth does."""


@dataclass(frozen=True, slots=True)
class NoEffectShown:
    """In a table of settings drawn at random, nearly all depths have about the same loss."""

    plateau: tuple[int, int]
    """The shallowest and the deepest of these depths."""


@dataclass(frozen=True, slots=True)
class BetweenTested:
    """Only the curve says that the best depth lies between two depths that finished."""

    interval: tuple[int, int]
    below: int
    """The tested depth below the interval."""
    above: int


@dataclass(frozen=True, slots=True)
class MayCostMore:
    """The answer may cost more than another depth by over the width of a plateau."""

    depth: int
    chance: float
    """Probability that `depth` costs over the width of a plateau more than the best."""
    rivals: tuple[int, ...]
    """Depths that would be the best in that case, the likeliest first."""


@dataclass(frozen=True, slots=True)
class SearchUnfinished:
    """The search of the budget has not ended."""

    ended: int
    """Number of trials that have ended."""


Edge = BestAtEnd | NothingShallower | NoneFinishedBeyond
"""Causes of an edge."""
Insufficient = (
    TooFewDepths
    | TooFewSizes
    | NoiseUnknown
    | Confounded
    | FewRuns
    | UnknownSettings
    | BelowMeasured
    | SeedApart
    | NoiseHidesDepth
    | RatioHidesDepth
    | NoEffectShown
    | BetweenTested
    | MayCostMore
)
"""Causes of an answer that is insufficient."""
Cause = NarrowInterval | Flat | Edge | Insufficient | SearchUnfinished


@dataclass(frozen=True, slots=True)
class Seeds:
    """Train `number` seeds of each of the best depths."""

    number: int


@dataclass(frozen=True, slots=True)
class MoreTokens:
    """Train on more tokens, since `seeds`, the number needed otherwise, is too many."""

    seeds: int
    key: str = "tokens"
    """Key of the study file that sets the training tokens."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Set these keys of the study to these values."""

    changes: tuple[tuple[str, object], ...]


class Lack(Enum):
    """Reason why no change of a study's space or trials settles its budget."""

    NO_DEEPER = auto()
    NO_SHALLOWER = auto()
    NO_SUCH_DEPTH = auto()
    ALL_PLANNED = auto()


@dataclass(frozen=True, slots=True)
class NoRemedy:
    """No change of the study's space or trials helps."""

    why: Lack
    budget: int
    depths: tuple[int, ...] = ()
    """Depths without a shape, or all depths with one, depending on `why`."""


@dataclass(frozen=True, slots=True)
class Depths:
    """Train depths of this range."""

    shallowest: int
    deepest: int


@dataclass(frozen=True, slots=True)
class TheseDepths:
    """Train these depths in addition to the tested ones."""

    depths: tuple[int, ...]
    tested: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OneValue:
    """Train the depths at one value of a setting."""

    setting: str


@dataclass(frozen=True, slots=True)
class Larger:
    """Raise the budget, or the amount that a training spends."""

    coin: Coin | None
    """Quantity that a training spends; None if that is the budget itself."""

    @property
    def name(self) -> str:
        """Name of the remedy in JSON replies, such as `larger_or_more_flops`."""
        if self.coin is None:
            return "larger"
        return f"larger_or_{'longer' if self.coin is Coin.TOKENS else f'more_{self.coin.lower()}'}"


class Advice(Enum):
    """Remedies that need no parameters."""

    MORE_DEPTHS = auto()
    TRAIN_TO_THE_END = auto()
    LOWER_LEARNING_RATE = auto()
    MORE_SHAPES = auto()
    RESUME = auto()
    NAME_SETTINGS = auto()
    SAME_TOKENS = auto()


Remedy = Seeds | MoreTokens | Depths | TheseDepths | OneValue | Larger | Keys | NoRemedy | Advice


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a budget: its kind, the cause, and what to change, if anything."""

    kind: Kind
    cause: Cause
    remedy: Remedy | None = None
