"""Pairs of sentences, in splits; needs neither torch nor numpy."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.rows import tsv
from fathom.objectives.rows.held_out import check_apart
from fathom.objectives.rows.published import TRANSLATION
from fathom.objectives.rows.translation.generated import GENERATED, DrawnLanguage, drawn
from fathom.objectives.rows.translation.pair_files import Files, SentencePair, read_pairs

HELD_OUT_FRACTION = 0.1
"""Largest fraction of the distinct sources of the training pairs that each of `dev` and `test`
takes."""


@dataclass(frozen=True, slots=True)
class ParallelText:
    """All pairs, by split."""

    train: Sequence[SentencePair]
    dev: Sequence[SentencePair]
    test: Sequence[SentencePair]
    overlapping: int
    """Training pairs that were dropped, as their source or their target is in `dev` or `test`."""
    unusable: int = 0
    """Lines that were dropped: one side alone, or another number of columns than most."""

    def parts(self) -> Iterator[str]:
        """Yields the name of each split, then its sources and targets, for a digest of the data."""
        splits = {"train": self.train, "dev": self.dev, "test": self.test}
        return tsv.parts_of(splits, "source", "target")


def read_parallel_text(
    *, data: Files, dev: Files | None, test: Files | None, columns: tuple[int, int],
    held_out: int, train_pairs: int | None, generated: DrawnLanguage,
) -> ParallelText:  # fmt: skip
    """The pairs of all splits; `dev` and `test` that are not named are held out of `data`.

    Pairs of which a side is in `dev` or `test` are not trained on. `train_pairs` keeps at most so
    many of the others. The choice depends on the sentences alone: a smaller choice is part of every
    larger one, and the held-out pairs stay the same.

    Raises:
        ObjectiveError: when a file is missing or malformed, or there are too few pairs.
    """
    published = TRANSLATION.get(data, {}) if isinstance(data, str) else {}
    given: dict[str, tsv.Place | tuple[tsv.Place, tsv.Place] | None] = {
        "dev": published.get("dev"),
        "test": published.get("test"),
        **{name: place for name, place in (("dev", dev), ("test", test)) if place},
    }
    unusable = 0
    if data == GENERATED:
        pairs = [SentencePair(*texts) for texts in drawn(generated)]
    else:
        pairs, unusable = read_pairs(published.get("train", data), columns)
    named: dict[str, list[SentencePair]] = {}
    for name, place in given.items():
        if place:
            named[name], dropped = read_pairs(place, columns)
            unusable += dropped
    for name, files in (("dev", dev), ("test", test)):
        if files:
            check_apart(pairs, named[name], " and ".join(_paths(files)), key=name)
    taken = _held_out(pairs, [name for name in given if name not in named], held_out)
    splits = named | taken
    text = _without_overlap(pairs, splits["dev"], splits["test"], train_pairs)
    overlapping = text.overlapping - sum(map(len, taken.values()))
    return replace(text, overlapping=overlapping, unusable=unusable)


def _paths(files: Files) -> tuple[str, ...]:
    return (files,) if isinstance(files, str) else files


def _held_out(
    pairs: Sequence[SentencePair], names: Sequence[str], most: int
) -> dict[str, list[SentencePair]]:
    """Held-out pairs by split, the first pair of each source; raises `ObjectiveError` if there are
    too few sources."""
    firsts: dict[str, SentencePair] = {}
    for pair in pairs:
        firsts.setdefault(pair.source, pair)
    each = min(most, int(HELD_OUT_FRACTION * len(firsts)))
    if names and not each:
        raise ObjectiveError(
            f"`data` must have enough pairs to hold out {HELD_OUT_FRACTION:.0%} of them for each "
            f"of {' and '.join(names)}, got {len(firsts)} different sources; add pairs, or name "
            f"the files of `{names[0]}`"
        )
    order = sorted(firsts, key=_place_in_order)
    return {
        name: [firsts[source] for source in order[at * each : (at + 1) * each]]
        for at, name in enumerate(names)
    }


def _without_overlap(
    pairs: Sequence[SentencePair],
    dev: Sequence[SentencePair],
    test: Sequence[SentencePair],
    most: int | None,
) -> ParallelText:
    sources = {pair.source for pair in (*dev, *test)}
    targets = {pair.target for pair in (*dev, *test)}
    train = [pair for pair in pairs if pair.source not in sources and pair.target not in targets]
    if not train:
        raise ObjectiveError(
            f"`data` must have pairs to train on, but each of its {len(pairs)} pairs has a side "
            "that is in `dev` or `test` as well; name other files, or check `columns`"
        )
    overlapping = len(pairs) - len(train)
    if most is not None:
        if len(train) < most:
            raise ObjectiveError(
                f"`train_pairs` must be at most the number of training pairs, {len(train)}, got "
                f"{most}; lower it, or leave it out to take all"
            )
        train = sorted(train, key=lambda pair: _place_in_order(f"{pair.source}\t{pair.target}"))
        train = train[:most]
    return ParallelText(train, dev, test, overlapping)


def _place_in_order(text: str) -> bytes:
    """Sort key of a text, by a hash: an order that looks random and depends on the text alone."""
    return hashlib.sha256(text.encode()).digest()
