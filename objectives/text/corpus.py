"""Text by name, and the part of it that training never sees.

A corpus is `stdlib` (the running interpreter's own Python source, always there), the name of a
published text (`download.py`), or the user's own file, folder or glob pattern. Names come before
paths: a file called `stdlib` is `./stdlib`.

Of a folder or pattern every file of UTF-8 text, or of UTF-16 or UTF-32 with a byte order mark, is
read in sorted order, uncompressed if its name ends in .gz; hidden and binary files are not read.
Where names in a folder tell splits, such as `train.txt` and `valid.txt`, the latter is held out,
and files for a test are left out.
"""

import glob
import os
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.objectives.errors import ObjectiveError, nearest
from fathom.objectives.files.download import (
    DOWNLOADS,
    cache_folder,
    mirror_file,
    read_download,
    read_file,
)
from fathom.objectives.files.reading import check_bounded, digest_of, matches, open_regular
from fathom.objectives.text.encodings import defect_of, utf8_text
from fathom.objectives.text.folders import NamedFiles, folder_files, named_files, unreadable

STDLIB = "stdlib"
CORPORA = (STDLIB, *DOWNLOADS)

# Not source that a person reads: tests and demonstrations, code tables, generated documentation.
NOT_SOURCE = frozenset(
    {
        *("test", "tests", "idlelib", "turtledemo", "encodings", "pydoc_data"),
        *("ensurepip", "site-packages", "dist-packages", "__pycache__"),
    }
)
# Written when the interpreter was built: it holds this machine's paths and compiler flags.
BUILD_CONFIGURATION = "_sysconfigdata"

BLOCK_BYTES = 1 << 22

"""Folders whose files are made up by the system as they are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """UTF-8 text in a part to train on and a held-out part, which do not overlap."""

    train: bytes
    validation: bytes

    @property
    def digest(self) -> str:
        """Digest of both parts."""
        return digest_of((self.train, self.validation))


def check_corpus(corpus: str) -> None:
    """Raises the error of `read_corpus` for a missing corpus, without reading it."""
    if corpus in DOWNLOADS:
        mirror_file(DOWNLOADS[corpus])
    else:
        _read(next(corpus_files(corpus)), limit_bytes=1)


def files_by_name(corpus: str) -> NamedFiles | None:
    """The files of a corpus by their splits; None unless it is a folder with names that tell
    splits."""
    path = os.path.expanduser(corpus)
    return named_files(Path(path)) if corpus not in CORPORA and os.path.isdir(path) else None


def split_bytes(
    corpus: str, *, validation_fraction: float, without: frozenset[Path] = frozenset()
) -> tuple[int, int] | None:
    """Approximate bytes on the disk of the training and the held-out files, except those in
    `without`; None if the corpus is not downloaded yet."""
    if named := files_by_name(corpus):
        return _size({*named.train} - without), _size({*named.validation} - without)
    files = _on_disk(corpus)
    if not files:
        return None
    size = _size({*files} - without)
    train = int(size * (1 - validation_fraction))
    return train, size - train


def is_packed(corpus: str) -> bool:
    """True if some files of a corpus are compressed."""
    return any(file.suffix == ".gz" for file in _on_disk(corpus))


def _size(files: Collection[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def corpus_bytes(corpus: str) -> int | None:
    """Bytes of the files of a corpus, as they lie on the disk; None if it is not downloaded yet."""
    files = _on_disk(corpus)
    return _size(files) if files else None


def _on_disk(corpus: str) -> Sequence[Path]:
    """The files of a corpus; none if it is not downloaded yet."""
    if corpus not in DOWNLOADS:
        return list(corpus_files(corpus))
    file = mirror_file(DOWNLOADS[corpus]) or cache_folder() / DOWNLOADS[corpus].path
    return [file] if file.is_file() else []


def corpus_contents(corpus: str) -> Iterator[Iterator[bytes]]:
    """The content of each file of a corpus, in order, as it lies on the disk, in blocks."""
    if corpus in DOWNLOADS:
        yield iter((read_download(DOWNLOADS[corpus]),))
        return
    for file in corpus_files(corpus):
        yield _blocks(file)


def _blocks(file: Path) -> Iterator[bytes]:
    try:
        with open_regular(file) as opened:
            while block := opened.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        raise unreadable(file, error) from error


def read_corpus(corpus: str, *, validation_fraction: float) -> Corpus:
    """The text of a corpus in two splits. Which one a text goes to depends on the files' contents,
    not on their folder, unless names in the folder say which are held out."""
    if named := files_by_name(corpus):
        train, validation = (
            b"\n".join(_texts(corpus, files)) for files in (named.train, named.validation)
        )
        return Corpus(train=train, validation=validation)
    documents = _documents(corpus)
    split = split_documents(documents, validation_fraction=validation_fraction)
    if not (split.train and split.validation):
        raise ObjectiveError(
            f"a corpus must have text for training and validation, but {corpus!r} holds "
            f"{sum(map(len, documents))} bytes; use a larger one"
        )
    return split


def read_whole(corpus: str) -> str:
    """The whole text of a corpus, with nothing held out."""
    return b"\n".join(_documents(corpus)).decode()


def check_lengths(train: int, validation: int, *, corpus: str, context: int) -> None:
    """Raises `ObjectiveError` if a split has no more tokens than a sequence."""
    if min(train, validation) <= context:
        raise ObjectiveError(
            f"both splits must be longer than `context`, got corpus {corpus!r} with "
            f"{train} training and {validation} validation tokens, context={context}; use a larger "
            "corpus, a shorter `context` or another `validation_fraction`"
        )


def split_documents(documents: Sequence[bytes], *, validation_fraction: float) -> Corpus:
    """The documents in two splits: whole documents are held out if these come near the fraction.

    Whole documents keep the validation text independent of what was trained on. With a few
    documents, or one that outweighs the rest, the held-out part would be too large or too small;
    then the last part of each document is held out, as always with one text.
    """
    held_out = _held_out(documents, validation_fraction)
    validation = [text for text in documents if text in held_out]
    share = sum(map(len, validation)) / max(1, sum(map(len, documents)))
    # Neither split less than half of what it should be, and the validation not more than twice.
    most = min(2 * validation_fraction, (1 + validation_fraction) / 2)
    if validation_fraction / 2 <= share <= most:
        train = [text for text in documents if text not in held_out]
    else:
        cuts = [_cut(text, validation_fraction) for text in documents]
        train = [text[:cut] for text, cut in zip(documents, cuts, strict=True)]
        validation = [text[cut:] for text, cut in zip(documents, cuts, strict=True)]
    return Corpus(train=b"\n".join(train), validation=b"\n".join(validation))


def _held_out(documents: Sequence[bytes], fraction: float) -> frozenset[bytes]:
    """Every 1/fraction-th document by size, so that both splits have the same mix of sizes.

    The choice is by content: names and folders do not matter, and copies stay on one side.
    """
    by_size = sorted(set(documents), key=lambda text: (-len(text), text))
    return frozenset(
        text
        for rank, text in enumerate(by_size)
        if int((rank + 1) * fraction + 0.5) > int(rank * fraction + 0.5)
    )


def _cut(text: bytes, fraction: float) -> int:
    """Byte offset at which the last `fraction` of a text begins, at a whole character."""
    cut = int(len(text) * (1 - fraction))
    while cut < len(text) and text[cut] & 0xC0 == 0x80:
        cut += 1
    return cut


def _documents(corpus: str) -> list[bytes]:
    if corpus in DOWNLOADS:
        return [read_download(DOWNLOADS[corpus])]
    return _texts(corpus, corpus_files(corpus))


def _texts(corpus: str, files: Iterable[Path]) -> list[bytes]:
    """The content of the files that are text, as UTF-8; `left_out.py` names the others."""
    texts: list[bytes] = []
    skipped = ""
    for file in files:
        content = read_file(file) if file.suffix == ".gz" else _read(file)
        text = utf8_text(content)
        if text is not None:
            texts.append(text)
        elif not skipped:
            skipped = f"{file} {defect_of(file, content)}"
    if not texts:
        found = skipped or f"{corpus!r} has an empty folder of a split; name other files"
        raise ObjectiveError(f"a corpus must be UTF-8 text, but {found}")
    return texts


def _read(file: Path, *, limit_bytes: int = -1) -> bytes:
    try:
        with open_regular(file) as opened:
            return opened.read(limit_bytes)
    except OSError as error:
        raise unreadable(file, error) from error


def corpus_files(corpus: str) -> Iterator[Path]:
    """Files of a corpus, sorted; raises `ObjectiveError` if there are none."""
    found = False
    for file in _candidates(corpus):
        found = True
        yield file
    if not found:
        raise ObjectiveError(
            f"a corpus must have at least one file that is not hidden, got none in {corpus!r}; "
            f"put text there or name another corpus"
        )


def _candidates(corpus: str) -> Iterator[Path]:
    if corpus == STDLIB:
        return _stdlib_files()
    path = os.path.expanduser(corpus)
    check_bounded(path)
    if named := files_by_name(corpus):
        return iter((*named.train, *named.validation))
    if os.path.isdir(path):
        return folder_files(Path(path))
    if os.path.isfile(path):
        return iter((Path(path),))
    if os.path.exists(path):
        raise ObjectiveError(
            f"a corpus must be a regular file, a folder or a glob pattern, got {corpus!r}, "
            f"which is none of them; copy its text to a file"
        )
    if glob.has_magic(path):
        return (match for match in matches(path) if match.is_file())
    raise ObjectiveError(
        f"corpus must be one of {', '.join(CORPORA)}, or an existing file, folder or glob pattern, "
        f"got {corpus!r}; {nearest(corpus, CORPORA)}"
    )


def _stdlib_files() -> Iterator[Path]:
    for file in folder_files(Path(sysconfig.get_path("stdlib")), without=NOT_SOURCE):
        if file.suffix == ".py" and not file.name.startswith(BUILD_CONFIGURATION):
            yield file
