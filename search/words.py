"""The reason of a verdict and its remedy in words: for a study, and for a table of runs."""

from fathom.models.unit import NATS, Unit
from fathom.search.analysis.answer import verdict as v
from fathom.search.analysis.answer.judging import TOO_WIDE
from fathom.search.analysis.answer.optimum import Optimum
from fathom.search.analysis.answer.verdict import Advice, Verdict
from fathom.search.analysis.losses.stalls import SeedApart
from fathom.search.formatting import format_count

STUDY = {
    Advice.MORE_DEPTHS: "raise `confirm.depths` or widen `space.depth`",
    Advice.TRAIN_TO_THE_END: "raise `confirm.depths`",
    Advice.LOWER_LEARNING_RATE: "see the reasons of those trials, or lower `train.learning_rate`",
    Advice.MORE_SHAPES: "raise `trials`",
    Advice.RESUME: "resume it",
    Advice.NAME_SETTINGS: "train more seeds at one setting",
    Advice.SAME_TOKENS: "train these to the end",
}
"""What to change in a study, by advice."""
TABLE = {
    Advice.MORE_DEPTHS: "add runs of other depths",
    Advice.TRAIN_TO_THE_END: "train these to the end",
    Advice.LOWER_LEARNING_RATE: "see the reasons of those trials, or lower the learning rate there",
    Advice.MORE_SHAPES: "compare shapes of one ratio of d_ff to d_model",
    Advice.RESUME: "resume it",
    Advice.NAME_SETTINGS: "export the columns of its settings, or the column of seeds, with it",
    Advice.SAME_TOKENS: "train them on the same tokens, or name those of more runs with --horizon",
}
"""Which runs to add to a table, by advice."""


def plateau_width(unit: Unit) -> str:
    """The difference below which losses are the same for practical purposes, with its unit."""
    return f"{unit.difference(v.PLATEAU_WIDTH):.2g} {unit}"


NOT_RULED_OUT = f"depths that finished and may lie within {plateau_width(NATS)} of the best"
"""Meaning of the depths that are listed as not ruled out."""


def study_reason(verdict: Verdict) -> str:
    """Returns the reason of a verdict; a remedy names keys of the study file."""
    return _reason(verdict, study_remedy(verdict), NATS)


def table_reason(verdict: Verdict, unit: Unit = NATS) -> str:
    """Returns the reason of a verdict on losses of a unit; a remedy says which runs to add to the
    table."""
    return _reason(verdict, table_remedy(verdict), unit)


def _reason(verdict: Verdict, remedy: str, unit: Unit) -> str:
    cause = cause_text(verdict.cause, unit)
    return f"{cause}; {remedy}" if remedy else cause


def remedy_keys(remedy: v.Remedy | None) -> dict[str, object]:
    """Returns the keys of a study that a remedy sets, with their values."""
    match remedy:
        case v.Seeds(number):
            return {"confirm.seeds": number}
        case v.Depths(shallowest, deepest):
            return {"space.depth": [shallowest, deepest]}
        case v.TheseDepths(depths, tested):
            return {"sampler": "ladder", "space.depth": sorted({*depths, *tested})}
        case v.Keys(changes):
            return dict(changes)
    return {}


def study_remedy(verdict: Verdict) -> str:
    """Returns what to change in a study; empty if nothing has to be changed."""
    keys = " and ".join(f"`{key}: {value}`" for key, value in remedy_keys(verdict.remedy).items())
    match verdict.remedy:
        case v.MoreTokens(seeds, key):
            return f"about {seeds} seeds would be needed, so raise `{key}`"
        case v.Larger(coin):
            return f"raise `budgets` or `{coin.key}`" if coin else "raise `budgets`"
        case v.TheseDepths(depths):
            return f"{_train_too(depths)}, by {keys}"
        case v.Seeds() | v.Depths() | v.Keys():
            return f"set {keys}"
        case v.OneValue(setting):
            return f"train them at one value of {setting}"
        case v.NoRemedy() as nothing:
            return _nothing_text(nothing)
        case Advice() as advice:
            return STUDY[advice]
        case None:
            return ""


def table_remedy(verdict: Verdict) -> str:
    """Returns which runs to add to a table; empty if none are needed."""
    match verdict.remedy:
        case v.Seeds(number):
            remedy = f"train {number} seeds of each of the best depths"
        case v.MoreTokens(seeds):
            remedy = f"about {seeds} seeds would be needed, so train on more tokens"
        case v.Larger():
            remedy = "compare larger models or longer trainings"
        case v.Depths(shallowest, deepest):
            remedy = f"add depths from {shallowest} to {deepest}"
        case v.TheseDepths(depths):
            remedy = _train_too(depths)
        case v.OneValue(setting):
            remedy = f"train these depths at one value of {setting}"
        case Advice() as advice:
            remedy = TABLE[advice]
        case v.Keys() | v.NoRemedy() | None:  # the former two are of a study alone
            return ""
    unknown = isinstance(verdict.cause, v.NoiseUnknown)
    return f"{remedy}, or state the noise with --noise" if unknown else remedy


def cause_text(cause: v.Cause, unit: Unit = NATS) -> str:
    """Returns the cause of a verdict on losses of a unit as a sentence without a full stop."""
    match cause:
        case v.NarrowInterval(interval, (first, last)):
            return (
                f"the 95 % interval, {both_ends(interval)}, spans less than a factor of "
                f"{TOO_WIDE} and ends inside the range of depths that finished, {first} to {last}"
            )
        case v.Flat((first, last), most, answer, shallowest):
            alike = f"any depth from {first} to {last} may be the best"
            if isinstance(cause, v.FlatRange):
                alike = f"depths {first} to {last} can't be told apart by {plateau_width(unit)}"
            return (
                f"{alike}, and none of them costs more than {unit.difference(most):.4f} {unit} "
                f"instead of depth {answer} (95 % intervals); {_to_train(answer, shallowest)}"
            )
        case v.BetweenTested(interval, below, above):
            return (
                f"no depth of the 95 % interval, {both_ends(interval)}, was trained to the end, "
                f"nor any other between {below} and {above}"
            )
        case v.BestAtEnd() | v.NothingShallower() | v.NoneFinishedBeyond():
            return _edge_text(cause)
        case v.TooFewDepths(finished):
            depths = ", ".join(map(str, finished)) or "none"
            return f"a curve needs three depths that finished, got {depths}"
        case v.TooFewSizes(finished):
            sizes = ", ".join(map(format_count, finished))
            return f"too few sizes finished for the best size and depth together, only {sizes}"
        case v.NoiseUnknown():
            return "no shape has two seeds whose losses differ, so depth can't be told from noise"
        case v.Confounded(setting, values):
            texts = [f"{value} at {', '.join(map(str, depths))}" for value, depths in values]
            return f"{setting} goes with depth ({'; '.join(texts)}), so depth can't be told from it"
        case v.FewRuns(counted, runs):
            return f"only {counted} of {runs} runs have a loss at the horizon"
        case v.UnknownSettings(within, between):
            return (
                f"runs of one depth differ by {unit.difference(within):.4f} {unit}, more than "
                f"seeds usually do, and depths by {unit.difference(between):.4f}, so settings that "
                "the table lacks may move the loss"
            )
        case v.BelowMeasured(depth, loss, lowest):
            beyond = "below the lowest loss" if unit.zero is None else "above the highest value"
            return (
                f"only the curve says that depth {depth} is best, at {unit.value(loss):.4f} "
                f"{unit}, far {beyond} that was measured, {unit.value(lowest):.4f}"
            )
        case SeedApart(depth, seed, loss, others):
            return (
                f"seed {seed} of depth {depth} ended at {loss:.4f} nats, far below its other seeds "
                f"(from {others:.4f}), and the other depths do not show which are wrong"
            )
        case v.NoiseHidesDepth(noise):
            apart = f"{unit.difference(noise):.4f} {unit}"
            return f"seeds differ by {apart}, which hides the effect of depth"
        case v.RatioHidesDepth():
            return "the feed-forward ratio changes the loss by as much as depth does"
        case v.NoEffectShown((first, last)):
            width = plateau_width(unit)
            return f"no effect of depth is shown: {first} to {last} can't be told apart by {width}"
        case v.MayCostMore(depth, chance, rivals):
            likely = f"{100 * chance:.{1 if chance < 0.1 else 0}f}"  # 5.2 % are not "at most 5 %"
            return (
                f"depth {depth} may cost more than {plateau_width(unit)} against another, such as "
                f"{', '.join(map(str, rivals))} (probability {likely} %)"
            )
        case v.SearchUnfinished(ended):
            return f"the search has not ended, and only {ended} of its trials have"


def nothing_shallower(depth: int | None) -> str:
    """The answer of a budget whose best depth no model is shallower than, as a clause."""
    return f"depth {depth} is best, and no shallower model exists"


def _edge_text(cause: v.Edge) -> str:
    match cause:
        case v.BestAtEnd(end, deeper):
            side, last = ("deeper", "deepest") if deeper else ("shallower", "shallowest")
            return f"the best depth may be {side} than the {last} tested, {end}"
        case v.NothingShallower(depth):
            return nothing_shallower(depth)
        case v.NoneFinishedBeyond(end, outcomes):
            ended = ", ".join(f"{number} {outcome}" for outcome, number in outcomes)
            return f"the best depth may lie beyond {end}, where no trial finished ({ended})"


def _nothing_text(nothing: v.NoRemedy) -> str:
    """Returns why no change of a study helps."""
    budget, depths = format_count(nothing.budget), ", ".join(map(str, nothing.depths))
    match nothing.why:
        case v.Lack.NO_DEEPER:
            why = f"no deeper shape meets {budget}"
        case v.Lack.NO_SHALLOWER:
            why = f"no shallower shape meets {budget}"
        case v.Lack.NO_SUCH_DEPTH:
            why = f"no shape of depth {depths} meets {budget}"
        case v.Lack.ALL_PLANNED:
            why = f"the plan already has every depth at which a shape meets {budget} ({depths})"
    return f"{why}; drop this budget"


def _to_train(answer: int, shallowest: int) -> str:
    """Returns which depth of a plateau to train, and why."""
    chosen = f"train depth {answer}, which is expected to cost least"
    if answer == shallowest:
        return f"{chosen} and is the cheapest to serve"
    return f"{chosen}; the shallowest, {shallowest}, is the cheapest to serve"


def _train_too(depths: tuple[int, ...]) -> str:
    return f"train depth{'' if len(depths) == 1 else 's'} {', '.join(map(str, depths))} too"


def probabilities_text(optimum: Optimum) -> str:
    """Returns the probabilities of depths to be the best, `3: 71 %, 4: 22 %`; empty without any."""
    return ", ".join(f"{depth}: {100 * share:.0f} %" for depth, share in optimum.probabilities)


def both_ends(interval: tuple[int, int]) -> str:
    """Returns both ends of an interval, `3 to 5`, or `3` if they are the same."""
    low, high = interval
    return f"{low} to {high}" if low < high else str(low)
