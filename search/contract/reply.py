"""The form of all `--json` output: questions, their answers, and the next trainings. Docstrings and
types here become the published schema, `docs/answer.schema.json`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, computed_field
from pydantic_core import CoreSchema

from fathom.search.analysis.answer.verdict import Kind
from fathom.search.analysis.curve_families import Parabola, PowerCurve
from fathom.search.analysis.laws.amount_law import AmountLaw
from fathom.search.analysis.laws.law import Law, Prediction
from fathom.search.analysis.laws.null_laws import NullLaw
from fathom.search.analysis.spending.at_compute import ComputeAnswer
from fathom.search.analysis.spending.ladder_check import LadderRung
from fathom.search.analysis.spending.serving_choice import ServingChoice
from fathom.search.cluster.doctor.facts import Finding
from fathom.search.conclusion.published import papers_form
from fathom.search.scheduling.audit import RungAudit
from fathom.search.serving.values import Duration, Request
from fathom.search.study.hardware.step_fit import StepFit

VERSION = "1.0"
"""Version of the form. The first number changes when programs that read it must change, the second
when something is added."""
Number = int | float
Interval = tuple[Number, Number]
"""Both ends of a 95 % interval."""


class PapersForm:
    """The form of the findings of published analyses, as `papers_form` has it."""

    @staticmethod
    def __get_pydantic_core_schema__(_source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema of their class."""
        return handler.generate_schema(papers_form())


class Part(BaseModel):
    """A part of a reply. Every key is always present, and there are no other keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, from_attributes=True, use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )  # fmt: skip


class AskedHorizon(Part):
    """Length of a model's training."""

    amount: Number
    unit: str
    """`tokens`; `FLOPs` or `seconds`, if every shape spends an equal amount of them; or `steps`, in
    a table without tokens."""
    name: str | None = None
    """Name of the horizon, such as `20` or `10M`, for `--horizon`; null unless a study has
    several."""


class AskedQuestion(Part):
    """The question to which an answer belongs."""

    source: str
    """Name of the study, or the table."""
    run: str | None
    """The run folder; null for a table, and for a study without a run folder."""
    count: str
    """Rule by which a budget is counted: `total`, `non_embedding`, `matrices`, or another one."""
    budget: Number | None
    """Size in units of `count`; null for a question about compute."""
    flops: Number | None = None
    """FLOPs of one training, for a question about compute; null otherwise."""
    horizon: AskedHorizon | None
    """Null where a table does not say how long its models trained, and for a question about
    compute."""
    data: dict[str, Any]
    """Keys of the objective that a study sets, or `table` with its name."""
    held: dict[str, str]
    """Column of a table -> the value that all runs of this answer have."""


class Sizes(Part):
    """Sizes of a model; those that a table does not state are null."""

    depth: int
    d_model: int | None = None
    d_ff: int | None = None
    ff_ratio: float | None = None
    n_heads: int | None = None
    head_dim: int | None = None
    params_total: int | None = None
    params_non_embedding: int | None = None
    params_active: int | None = None
    """Parameters active for a token, in a model with experts; null for a dense model."""


class DepthProbability(Part):
    """A depth and its probability of being the best, if that is at least 0.01."""

    depth: int
    probability: float


class ByLaw(Part):
    """Laws through other sizes by which a depth was predicted."""

    law: str
    """The laws by name, the likeliest first."""
    weights: dict[str, float]
    """Law -> its probability among the laws, which is its weight in the depth and the interval."""
    extrapolated: bool
    """True if the size lies outside the sizes that the law was fitted to."""
    times_beyond: float
    """Size divided by the law's largest size, or its smallest size divided by the size, whichever
    is greater; below 1 between them."""
    params_range: Interval
    """The smallest and the largest size that the law was fitted to."""


class BestDepth(Part):
    """The best depth."""

    depth: Number
    """The depth that is expected to cost least; in a search, one that was trained. Whole, unless it
    is predicted by a law."""
    interval: Interval | None
    """95 % interval; null with fewer than three depths."""
    probabilities: tuple[DepthProbability, ...] = ()
    """The likeliest depth first; empty where no curve could be fitted."""
    not_ruled_out: tuple[int, ...] = ()
    """`depth`, and trained depths that may be as good for practical purposes (0.005 nats)."""
    shallowest_depth: int | None = None
    """The shallowest depth of `not_ruled_out`, the cheapest to serve."""
    lowest_depth: int | None = None
    """The trained depth with the lowest measured loss."""
    loss: float | None = None
    """Expected loss at `depth`, in the unit of the answer."""
    chance_of_cost: float | None = None
    """Probability that `depth` costs over 0.005 nats more than the best depth."""
    shape: Sizes | None
    """The best trained shape of `depth`, or a shape at the depth that a law predicts; null for a
    table."""
    by_law: ByLaw | None = None
    """Null where the depth was measured."""


class Statement(Part):
    """A cause or a remedy: its name, a sentence, and its values."""

    name: str
    """Name of the cause or remedy, such as `BestAtEnd`, `Seeds` or `more_depths`."""
    text: str
    values: dict[str, Any]


class StatedVerdict(Part):
    """Reliability of an answer, with the cause and a remedy."""

    kind: Kind
    """`identified` and `plateau` are settled: nothing has to be trained. `edge`: the best depth may
    lie beyond the trained ones. `insufficient`: the trainings leave it open. `unfinished`: the
    search has not ended. `by_law`: predicted by a law through other sizes. `no_answer`: neither
    measured nor predicted. `planned`: nothing was trained."""
    reason: str
    """Cause and remedy in one sentence."""
    cause: Statement
    remedy: Statement | None = None
    """What to change; null where nothing has to change, or nothing helps."""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorator above a property
    @property
    def settled(self) -> bool:
        """True for `identified` and `plateau`."""
        return self.kind.settled


class SizeCost(Part):
    """The loss of a size minus that of the best size, in the unit of the answer."""

    size: int
    cost: float
    cost_interval: Interval


class StatedSize(Part):
    """The best size when models of any size spend an equal amount."""

    source: str
    held: dict[str, str]
    count: str
    """Rule by which sizes are counted."""
    horizon: AskedHorizon | None
    unit: "StatedUnit"
    size: int | None
    """Size with the lowest expected loss; null with fewer than three sizes."""
    interval: Interval | None
    plateau: Interval | None
    """The smallest and the largest size that can't be told from the best."""
    loss: float | None
    kind: Kind
    reason: str
    costs: tuple[SizeCost, ...]
    """Costs of about half and twice the size, if in the trained range."""
    noise: float


class StatedCost(Part):
    """Cost of a depth compared with the best one."""

    depth: int
    nats: float
    """Expected loss above that of the best depth, nats; a quantity to maximise is scaled so that
    its noise between seeds is 0.006."""
    nats_interval: Interval
    cost: float
    """The same cost in the unit of the answer."""
    cost_interval: Interval
    compute: float | None
    """Compute that this depth needs to reach the loss of the best depth, as a multiple: 1.06 is 6 %
    more. Null unless two budgets at this horizon show how loss falls with compute."""
    compute_interval: Interval | None


class Price(Part):
    """Cost of a training; null where it is not known."""

    flops: float | None
    """FLOPs of the training: exact for a study, six per parameter and token for a table."""
    seconds: float | None
    """Median time of the finished trainings of the nearest depth."""


class ExpectedGain(Part):
    """What a training is expected to show about the best depth."""

    text: str
    doubt_left: float | None
    """Share of the variance of the best depth (or, if that is nearly known, of the cost of choosing
    it) that is expected to remain; null where that can't be predicted."""


class NextTraining(Part):
    """A training to buy: a shape, a seed, the tokens, and the price."""

    shape: Sizes
    seed: int
    rate_scale: float
    """Multiple of the learning rate of the study, or of the runs."""
    decay_scale: float
    """Multiple of the weight decay."""
    tokens: Number | None
    """Tokens, or steps if a table has no tokens; null where a table does not say how long its
    models trained, or gives only FLOPs without shapes."""
    price: Price
    brings: ExpectedGain


class TrialCounts(Part):
    """Numbers of a budget's trials by outcome."""

    finished: int
    stopped: int
    diverged: int
    failed: int


class StatedUnit(Part):
    """The unit of the losses of an answer, and of its noise and slope. Curves are in nats."""

    name: str
    """Name such as `nats` or `bits per byte`; for a quantity to maximise, its column."""
    nats: float
    """A difference of one in nats."""
    maximised: bool
    plateau: float
    """Difference up to which losses are the same for practical purposes: 0.005 nats."""


class DepthEvidence(Part):
    """The measured loss of a depth, in the unit of the answer."""

    depth: int
    loss: float
    standard_error: float
    trials: int


class StatedSeconds(Part):
    """Seconds of training steps of the trials that trained to the end, in a study with
    `train_seconds`."""

    asked: float
    devices: tuple[str, ...]
    trials: int
    median: float
    worst: float
    """Seconds of the trial that was furthest from `asked`."""
    median_off: float
    """Relative difference of `median` from `asked`."""
    worst_off: float


class Evidence(Part):
    """Evidence from the trainings of a budget, in layers, parameters and the unit of the answer."""

    trials: TrialCounts
    depths: tuple[DepthEvidence, ...]
    noise: float
    """Standard deviation of the loss between seeds."""
    params_slope: float
    """Slope by which losses were corrected for size, for each unit of ln(parameters)."""
    best_ff_ratio: float | None
    curve_minimum: float | None
    """Depth where the curve is lowest, before rounding."""
    curve_minimum_interval: Interval | None
    family_disagreement: float | None
    """Factor between the depths that two families of curves call best."""
    share_without_minimum: float | None
    """Probability that the loss has no lowest point inside the trained range."""
    power: PowerCurve | None
    """Curve in nats, as is `parabola`."""
    parabola: Parabola | None
    rungs: tuple[RungAudit, ...]
    """Audit of early stopping at each rung."""
    seconds: StatedSeconds | None
    """Null for a study without `train_seconds`, and where no trial trained to the end."""


class StatedAnswer(Part):
    """A question, its answer, and the trainings that would improve the answer."""

    question: AskedQuestion
    answer: BestDepth | None = None
    """Null without an answer; `verdict` then says why."""
    verdict: StatedVerdict
    unit: StatedUnit | None = None
    """Unit of losses; null for an answer without losses."""
    costs: tuple[StatedCost, ...] = ()
    """Cost of each other depth, ascending by depth; empty with fewer than three depths."""
    next: tuple[NextTraining, ...] = ()
    """The next trainings for this question: those that a search trains next or, if it ended with an
    open answer, would train without limits on depths and seeds. Empty while a search explores, if
    the answer is settled, and if no training helps. Ask again after them."""
    command: str | None = None
    """The next command: it trains the answer, resumes a search, searches with the remedy, or
    analyses the table again."""
    evidence: Evidence | None = None


class Background(Part):
    """Findings that the answers of one horizon of a study, or one part of a table, share."""

    source: str
    horizon: str | None
    """Name of the horizon; null unless a study has several."""
    held: dict[str, str]
    law: Law | None
    """The law of depth over sizes that predicts left-out sizes best."""
    null_laws: tuple[NullLaw, ...]
    amount_law: AmountLaw | None
    """The law of the best size and depth over what trainings spend, where the size is free."""
    unsupported: tuple[str, ...]
    """Sentences; each completes "these data do not show ..."."""
    papers: Annotated[Any, PapersForm]
    """Findings of analyses of published papers, empty where the data do not suffice."""


class RunProgress(Part):
    """Progress of the search in a run folder."""

    study: str
    folder: str
    horizon: str | None
    state: Literal["running", "done", "unfinished", "not begun"]
    budgets: int
    settled_budgets: tuple[int, ...]
    trials_ended: int
    trials_running: tuple[str, ...]
    idle_seconds: float | None
    """Seconds since a trial last wrote anything; null before the search has begun."""
    time_left_seconds: Interval | None


class StatedImportance(Part):
    """The importance of a setting in a table whose settings were drawn at random."""

    setting: str
    """The table's name of the column, or `depth`, `size` or `learning_rate`."""
    nats: float
    """Average cost of the values that were tried, compared with the best of them, when all other
    settings are at their best."""
    best: str
    """The value that is expected to be best."""
    best_depths: dict[str, int]
    """Two values of the setting -> the best depth at each; empty unless the runs show that the best
    depth depends on the setting."""


class ReadTable(Part):
    """Rows, columns and notes of a table as it was read."""

    rows: int
    runs: int
    columns: dict[str, str]
    """Fathom's name of each column -> the table's own name; empty for a run folder."""
    stated_noise: float | None
    importances: tuple[StatedImportance, ...] = ()
    """The most important setting first; empty unless the settings were drawn at random."""


class PlannedRung(Part):
    """A rung of early stopping, with expected numbers of trials."""

    share: float
    """Share of the tokens, FLOPs or seconds of a training to the end."""
    tokens: int | None
    """Tokens at the rung; null where every shape spends equal FLOPs or seconds."""
    arriving: float
    surviving: float


class PlannedBudget(Part):
    """The plan of one budget."""

    horizon: str | None
    budget: int
    count: str
    tokens: int | None
    """Tokens of each training; null where every shape spends equal FLOPs or seconds."""
    tokens_each: tuple[int, int]
    """The fewest and the most tokens of a training; estimates where trainings spend seconds."""
    train_flops: float | None
    """FLOPs of each training, if all spend equal FLOPs; otherwise null."""
    train_seconds: float | None
    """Seconds of each training, if all spend equal seconds; otherwise null."""
    epochs: float | None
    shapes: int
    depths: tuple[int, ...]
    worst_count_error: float
    trials: int
    rungs: tuple[PlannedRung, ...]
    flops: float
    hours: float
    step: StepFit
    """Training step of the shape that needs most memory."""
    shape_list: tuple[dict[str, int], ...] | None
    """Every feasible shape, with `--shapes`."""


class Plan(Part):
    """Shapes, trials, time and cost of a search, before it starts."""

    budgets: tuple[PlannedBudget, ...]
    hours: float
    """Hours of all horizons together."""
    start_seconds: float
    device: str
    device_hours: float
    """Sum of the hours of all devices; a GPU that trials share counts once."""
    cost: float | None
    """Price of the device hours; null without `--price`."""
    disk_bytes: int
    tokens: int | None
    """Tokens of all horizons together; null with one horizon."""


class StudyLoss(Part):
    """The best loss of a study at a budget."""

    study: str
    budget: int
    depth: int
    loss: float
    low: float
    high: float


class Difference(Part):
    """The best loss of one study minus that of another."""

    budget: int
    one: str
    other: str
    difference: float
    low: float
    high: float
    settled: bool
    """True where the interval leaves out 0."""


class StatedDepthRatio(Part):
    """The ratio of the best depths of two studies, before rounding."""

    budgets: tuple[int, ...]
    """One budget; or several, if the ratio is estimated as equal at all of them."""
    one: str
    other: str
    ratio: float | None = None
    """The best depth of study `other` divided by that of study `one`; null where `why_not` has a
    reason."""
    low: float | None = None
    high: float | None = None
    settled: bool
    """True where the interval leaves out 1."""
    costs: tuple[float | None, float | None] = (None, None)
    """Cost, nats, of the best depth of study `one` in study `other`, and that of `other` in `one`;
    null where a depth was not tested."""
    cost_intervals: tuple[Interval | None, Interval | None] = (None, None)
    why_not: str = ""
    """Why there is no ratio; empty if there is one."""


class StudyComparison(Part):
    """Comparison of studies. At a budget, the intervals of all ratios hold at once with
    `confidence`, and so do those of all differences."""

    confidence: float
    differing: dict[str, tuple[str, ...]]
    """Key in which the studies differ -> its value in each of them."""
    best: tuple[StudyLoss, ...]
    depths: tuple[StatedDepthRatio, ...]
    differences: tuple[Difference, ...]
    no_differences: str
    """Why best losses are not compared; empty if they are."""


class AtCompute(Part):
    """The answer to an amount of compute."""

    answer: ComputeAnswer | None
    shape_tokens: float | None
    """Tokens on which training the shape takes exactly the compute."""
    why_not: str
    """Why there is no answer; empty if there is one."""


class TriedRate(Part):
    """Losses of a shape at a learning rate."""

    log2_factor: float
    """Binary logarithm of the rate divided by the study's rate."""
    losses: tuple[float, ...]
    """Of each seed, nats."""


class SweptRates(Part):
    """A shape at several learning rates."""

    shape: Sizes
    points: tuple[TriedRate, ...]
    best_log2_factor: float
    enclosed: bool
    """True if the rates on both sides of the best one are worse."""


class TriedDecay(Part):
    """Losses of a shape at a weight decay."""

    decay: float
    losses: tuple[float, ...]
    """Of each seed, nats."""


class SweptDecays(Part):
    """A shape at several weight decays."""

    shape: Sizes
    points: tuple[TriedDecay, ...]


class CheckedDecay(Part):
    """Weight decays on a shallow and a deep shape, of trainings that repeat their data."""

    own: float
    """The study's decay."""
    epochs: float
    one_suits_both: bool
    own_suits_both: bool
    common: float
    """The decay whose larger cost of the two shapes' is lowest."""
    error: float
    """Standard error of a difference between two decays, nats."""
    sweeps: tuple[SweptDecays, ...]


class Exponents(Part):
    """A number for the residual stream, the normed features and the logits."""

    stream: float
    features: float
    logits: float


class CheckedCoordinates(Part):
    """Change of activations in the first steps."""

    sizes: tuple[int, ...]
    exponents: Exponents
    """Exponents of the changes as powers of the size."""


class CheckedAxis(Part):
    """One learning rate for all sizes along depth or width."""

    axis: str
    carries_over: bool
    sizes: tuple[int, int]
    """Sizes of the two trained shapes."""
    log2_shift: float
    """Shift of the best log2 learning rate for each doubling of the size."""
    error: float
    """Standard error of `log2_shift`."""
    coordinates: CheckedCoordinates | None
    """Null for a model of the user's own."""


class CheckedStudy(Part):
    """One learning rate for every shape of a study."""

    study: str
    scheme: str | None
    """Rules of scaling; null where all weights have the same rate."""
    carries_over: bool
    learning_rate: float
    best_rate: float
    rate_fits: bool
    """True if the study's rate is within a factor of 2 of the best one."""
    decays: CheckedDecay | None
    """Null unless a training is known to repeat its data."""
    axes: tuple[CheckedAxis, ...]
    sweeps: tuple[SweptRates, ...]
    reasons: dict[str, str]
    """Axis, `rate` or `decays` -> the verdict on it in a sentence."""


class ServedShape(Part):
    """Time and memory of answers by a shape."""

    depth: int
    measured: bool
    """False if the times are interpolated between other shapes, or from a data sheet."""
    prefill: Duration
    token: Duration
    tokens_per_second: float
    weight_bytes: int
    cache_bytes: int
    shape: dict[str, Any]


class ServedBudget(Part):
    """Time and memory of answers by the best shape of each depth of a budget."""

    budget: int
    request: Request
    bytes_per_number: int
    device: str
    model_error: float | None
    """Largest relative error of the model of the times; null with fewer than five shapes."""
    shapes: tuple[ServedShape, ...]
    choice: ServingChoice | None
    """Null with fewer than three depths that finished."""


class SizeAnswer(Part):
    """The best depth for a size by a law, and by the baseline laws."""

    prediction: Prediction
    weights: dict[str, float] = {}
    """Law of a run -> its probability; empty for a law that is not of a run."""
    null_laws: tuple[Prediction, ...] = ()
    """Predictions of the baseline laws that have a depth at this size; empty for a published
    law."""
    note: str = ""
    """How well the law and the baseline laws predict left-out budgets; empty for a published
    law."""


class PublishedSize(Part):
    """A published model, and the prediction of a published law for its size."""

    model: str
    trained_depth: int | None
    trained_d_model: int | None
    prediction: Prediction


class BudgetByLaw(Part):
    """The measured depth of a budget, compared with the laws of its run."""

    budget: int
    measured_depth: int | None
    measured_interval: Interval | None
    verdict: Kind
    fitted: bool
    """True if the laws were fitted to this budget."""
    null_laws: dict[str, float | None]
    """Baseline law -> its depth; null where it has none."""
    prediction: Prediction | None
    """Null where the law has no depth of at least 1."""


class LawTable(Part):
    """A law at several sizes: published models, or the budgets of a run."""

    published: tuple[PublishedSize, ...] = ()
    budgets: tuple[BudgetByLaw, ...] = ()
    note: str


class StatedRung(Part):
    """A model of a ladder, compared with a law's prediction for its size."""

    rung: LadderRung
    prediction: Prediction | None
    cost: float | None
    """Expected loss above that of the best depth, nats; null where the cost of depths is not
    known."""
    cost_interval: Interval | None
    factor: float | None
    """Depth divided by the law's depth."""
    is_off: bool
    instead: LadderRung | None = None
    """A model of the same size at the law's depth."""


class StatedLadder(Part):
    """A ladder of models, compared with a law."""

    law: str
    count: str
    rungs: tuple[StatedRung, ...]
    bend: float | None
    """Nats by which a line through the ladder's losses is too high at ten times its largest
    size."""


class Reply(Part):
    """Output of a command of Fathom with `--json`."""

    version: Literal["1.0"] = "1.0"
    command: Literal[
        "run", "report", "analyse", "ask", "status", "plan", "compare",
        "check", "doctor", "latency", "predict",
    ]  # fmt: skip
    answers: tuple[StatedAnswer, ...] = ()
    """One for each budget, horizon and part of a table."""
    sizes: tuple[StatedSize, ...] = ()
    """The best sizes when models of any size spend equal amounts: one for each amount and part of a
    table. `answers` have the best depths, if their effect can be separated from that of size."""
    background: tuple[Background, ...] = ()
    """One for each horizon of a study, or each horizon and part of a table."""
    token_laws: tuple[dict[str, Any], ...] = ()
    """Laws of depth over sizes and tokens, for `fathom predict --law` and `fathom ask --law`."""
    notes: tuple[str, ...] = ()
    """Sentences on what was assumed or left out."""
    runs: tuple[RunProgress, ...] = ()
    """Result of `status`."""
    table: ReadTable | None = None
    """Result of `analyse`."""
    plan: Plan | None = None
    """Result of `plan`."""
    comparison: StudyComparison | None = None
    """Result of `compare`."""
    at_compute: AtCompute | None = None
    """Result of `ask` with an amount of compute."""
    checked: CheckedStudy | None = None
    """Result of `check`."""
    works: bool | None = None
    """Result of `doctor`: true if a search would work."""
    findings: tuple[Finding, ...] = ()
    """Findings of `doctor`."""
    latency: tuple[ServedBudget, ...] = ()
    """Result of `latency`."""
    size: SizeAnswer | None = None
    """Result of `predict` with a size."""
    law_table: LawTable | None = None
    """Result of `predict` without a size."""
    ladder: StatedLadder | None = None
    """Result of `predict` with models."""
