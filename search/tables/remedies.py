"""What to train next, for a person with a table: the verdicts name keys of a study file."""

import re

REMEDIES = (
    (r"set `confirm\.seeds: (\d+)`", r"train \1 seeds of each of the best depths"),
    (r"raise `confirm\.depths` or widen `space\.depth`", "add runs of other depths"),
    (r"set `space\.depth: \[(\d+), (\d+)\]`", r"add depths from \1 to \2"),
    (r", by `sampler: ladder` and `space\.depth: \[[\d, ]+\]`", ""),
    (r"raise `confirm\.seeds`", "train more seeds"),
    (r"widen `space\.depth`", "add runs of other depths"),
    (r"raise `confirm\.depths`", "train these to the end"),
    (r"raise `trials`", "compare shapes of one ratio of d_ff to d_model"),
    (r"raise `budgets` or `tokens`", "compare larger models or longer trainings"),
    (r"raise `tokens`", "train on more tokens"),
    (r"lower `train\.learning_rate`", "lower the learning rate there"),
)
"""Pattern of a remedy in the reason of a verdict -> the same for runs that somebody has."""
REPEATS = re.compile(r"\btrials? repeats? a shape")


def for_tables(reason: str) -> str:
    """The reason of a verdict with remedies that need no study file."""
    text = reason
    for pattern, remedy in REMEDIES:
        text = re.sub(pattern, remedy, text)
    return f"{text}, or state the noise with --noise" if REPEATS.search(reason) else text
