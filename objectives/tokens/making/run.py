"""The whole of `fathom tokenize`: blocks go to worker processes and come back as tokens, in order.

Memory is bounded: a few blocks of a megabyte are under way at a time, in at most `PROCESSES`
workers; further cores become threads of these workers.
"""

import fcntl
import json
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import digest_of
from fathom.objectives.held_out.names import held_out_names
from fathom.objectives.text.tokenizer import BPE, BYTES
from fathom.objectives.tokens.making.choice import Chosen, check_choice, choose, chosen_of
from fathom.objectives.tokens.making.cut import CutBlock, CutSettings, cut_block, start_worker
from fathom.objectives.tokens.making.sources import SourceFile, TextBlock, find_sources, read_blocks
from fathom.objectives.tokens.making.writer import PROGRESS, ShardWriter, another
from fathom.objectives.tokens.shards import INDEX, TOKENIZER, Index, is_shard_folder, read_index

PROCESSES = 8
"""Most worker processes; each takes about 100 MB."""
BLOCKS_AHEAD = 2
"""Blocks that wait for each worker, besides the one on which it works."""
NOTE_SECONDS = 5.0
LOCK = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """The arguments of `fathom tokenize`."""

    source: str
    tokenizer: str
    """A tokenizer.json, `bpe:N`, `bytes`, or `ids` for ids that are cut already."""
    out: Path
    field: str = "text"
    """Key or column of the text."""
    validation: float = 0.01
    """Fraction of the documents that is held out."""
    end: str | None = None
    """Token between documents."""
    vocabulary: int | None = None
    """Number of token ids, for `ids`."""


@dataclass(frozen=True, slots=True)
class HowFar:
    """The progress of `fathom tokenize`."""

    read: int
    """Bytes of the source that were read, as they lie on the disk."""
    size: int
    tokens: int
    """Tokens written, those of earlier starts included."""


def make_tokens(
    making: Making, say: Callable[[HowFar], None], message: Callable[[str], None]
) -> Index:
    """Makes the shards, or continues where an earlier call was interrupted; returns their index.

    Raises:
        ObjectiveError: when source, tokenizer or folder do not suit.
    """
    files = find_sources(making.source)
    if held_out := held_out_names(making.source):
        message(f"left out, as held out by name: {held_out}; tokenize it alone for `validation`")
    check_choice(making.tokenizer, making.vocabulary)
    made_of = _digest(making, files)
    with _locked(making.out):
        if is_shard_folder(making.out):
            index = read_index(making.out)
            if index.made_of != made_of:
                raise another(making.out)
            message(f"{making.out} has all these tokens already")
            return index
        chosen = _tokenizer(making, files, message)
        dtype = "uint16" if chosen.vocab_size <= 1 << 16 else "uint32"
        settings = CutSettings(
            tokenizer=chosen.text, as_bytes=making.tokenizer == BYTES,
            vocab_size=chosen.vocab_size, dtype=dtype, end=chosen.end, field=making.field,
            validation=making.validation,
        )  # fmt: skip
        with closing(ShardWriter(making.out, made_of, dtype, chosen.end)) as writer:
            try:
                _write(writer, files, settings, say, message)
            finally:
                writer.note()
            if not any(split.tokens for split in writer.progress.splits.values()):
                raise ObjectiveError(f"SOURCE must hold text, got none in {making.source!r}")
            return writer.finish(chosen.vocab_size, chosen.end)


def _write(
    writer: ShardWriter, files: Sequence[SourceFile], settings: CutSettings,
    say: Callable[[HowFar], None], message: Callable[[str], None],
) -> None:  # fmt: skip
    """Cuts and writes all blocks that are not written yet."""
    done, size = writer.progress.blocks, sum(file.size for file in files)
    if done:
        message(
            f"continuing after {sum(s.tokens for s in writer.progress.splits.values()):,} tokens"
        )
    noted = time.monotonic()
    blocks = islice(read_blocks(files, settings.field), done, None)
    for block, cut in cut_in_order(blocks, settings):
        writer.add(cut, continues=block.continues)
        tokens = sum(split.tokens for split in writer.progress.splits.values())
        say(HowFar(block.read, size, tokens))
        if time.monotonic() - noted > NOTE_SECONDS:
            writer.note()
            noted = time.monotonic()


def cut_in_order(
    blocks: Iterator[TextBlock], settings: CutSettings
) -> Iterator[tuple[TextBlock, CutBlock]]:
    """Yields each block with its tokens, in the order of the blocks; all cores cut blocks."""
    cores = len(os.sched_getaffinity(0))
    processes = min(cores, PROCESSES)
    waiting: deque[tuple[TextBlock, Future[CutBlock]]] = deque()
    with ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), start_worker,
        (settings, max(1, cores // processes)),
    ) as pool:  # fmt: skip
        try:
            for block in blocks:
                waiting.append((block, pool.submit(cut_block, block)))
                if len(waiting) > processes * (1 + BLOCKS_AHEAD):
                    first, cut = waiting.popleft()
                    yield first, cut.result()
            for first, cut in waiting:
                yield first, cut.result()
        except BrokenProcessPool as error:
            raise ObjectiveError(
                "a process that cuts text was killed, most likely for lack of memory; run the same "
                "command again, which continues where it stopped"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _tokenizer(
    making: Making, files: Sequence[SourceFile], message: Callable[[str], None]
) -> Chosen:
    """The tokenizer; one that an earlier call has learned is read from the folder."""
    path = making.out / TOKENIZER
    if (making.out / PROGRESS).exists() and path.exists():
        return chosen_of(Tokenizer.from_str(path.read_text(encoding="utf-8")), making.end)
    if making.tokenizer.startswith(f"{BPE}:"):
        message(f"learning {making.tokenizer} on a sample")
    chosen = choose(
        making.tokenizer, files, making.field, end=making.end, vocabulary=making.vocabulary,
        validation=making.validation,
    )  # fmt: skip
    if chosen.text is not None:
        path.write_text(chosen.text, encoding="utf-8")
    return chosen


def _digest(making: Making, files: Sequence[SourceFile]) -> str:
    """Digest of the source's files by size and time, and of all settings."""
    tokenizer = Path(making.tokenizer).expanduser()
    text = tokenizer.read_text(encoding="utf-8") if tokenizer.is_file() else making.tokenizer
    settings = (making.field, making.validation, making.end, making.vocabulary)
    parts = [f"{file.path.name} {file.size} {file.modified}" for file in files]
    return digest_of((text, json.dumps(settings), *parts))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Context in which the folder exists and no other process makes tokens in it.

    Raises:
        ObjectiveError: when another does, or something else is in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    there = {path.name for path in folder.iterdir()}
    if there - {LOCK, TOKENIZER} and not there & {INDEX, PROGRESS}:
        raise ObjectiveError(
            f"--out must be a new folder, got {folder}, which holds {sorted(there)[0]}; name "
            "another"
        )
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ObjectiveError(
                f"{folder} is in use by another `fathom tokenize`; wait for it"
            ) from error
        yield
