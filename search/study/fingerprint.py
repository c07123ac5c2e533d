"""The fingerprint of a study: a digest of its data, and one of its settings and data together.

The run folder has it from the first start on, and every record carries it. So a change of the text
between two starts is noticed, and so is a record of another study.
"""

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from threading import Event

from fathom.objectives.files.reading import digest_of
from fathom.search.json_lines import read_lines
from fathom.search.record_json import DAMAGE, DamagedFileError, from_values, problem_of, to_values
from fathom.search.run_folder import RunFolder, RunFolderError, is_lost, write_atomically
from fathom.search.study.file.text_file import read_text
from fathom.search.study.keys.config import StudyConfig
from fathom.search.study.keys.own_sampler import has_seed

log = logging.getLogger(__name__)

FREE_TO_CHANGE = {"resources", "tracking"}
"""Groups of a study file that may change between runs on a folder: no training depends on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Digests by which a run folder recognises its study and its data."""

    study: str
    """Digest of the settings and the data; every record carries it."""
    data: str
    """Digest of all data or, of large data, of their sizes, their times and a sample; empty where a
    rule draws the data."""
    content: str = ""
    """Digest of every byte, where `data` rests on a sample; empty until it is known."""
    reproducible: bool = True
    """False if the study's sampler takes no seed, so that another search draws other shapes."""


def fingerprint_of(config: StudyConfig, data: str) -> Fingerprint:
    """The fingerprint of a study whose data have the digest `data`."""
    settings = config.model_dump(mode="json", exclude=FREE_TO_CHANGE)
    digest = digest_of((json.dumps(settings), data))
    return Fingerprint(study=digest, data=data, reproducible=has_seed(config.own_sampler))


def read_fingerprint(folder: RunFolder) -> Fingerprint | None:
    """The fingerprint in a run folder; None before the first start, or if the file is lost.

    Raises:
        DamagedFileError: when the file is not one that Fathom wrote.
    """
    path = folder.fingerprint
    if is_lost(path):
        return None
    try:
        return from_values(Fingerprint, json.loads(read_text(path)))
    except DAMAGE as error:
        raise DamagedFileError(
            f"{path}: {problem_of(error)}; restore the file, or delete it: `fathom run` writes it "
            "again from the records and the data"
        ) from error


def write_fingerprint(folder: RunFolder, fingerprint: Fingerprint) -> None:
    """Writes the fingerprint into its folder."""
    write_atomically(folder.fingerprint, json.dumps(to_values(fingerprint)) + "\n")


def settled_fingerprint(
    folder: RunFolder, now: Fingerprint, place: str, content: Callable[[], str | None]
) -> Fingerprint:
    """Returns the fingerprint in a run folder; if the folder has none yet, or has lost it, the
    study's own fingerprint `now`.

    `place` names the data. `content` digests every byte of them; it is called only where the quick
    digest differs, since copies of files have other times.

    Raises:
        RunFolderError: if the data are not those that the folder's trials were trained on, or may
            be others.
    """
    kept = read_fingerprint(folder) or _made_anew(folder, now, place)
    if kept.data != now.data and not (kept.content and content() == kept.content):
        raise _changed(folder, place, kept.data, now.data)
    return kept


def check_settings(folder: RunFolder, config: StudyConfig, fingerprint: Fingerprint) -> None:
    """Checks a study by the fingerprint in its folder if the folder has lost its `config.yaml`.

    Raises:
        RunFolderError: if the study has other settings than the one that began the search.
    """
    if is_lost(folder.config) and fingerprint_of(config, fingerprint.data) != replace(
        fingerprint, content=""
    ):
        raise RunFolderError(
            f"{folder.config} is lost, and the search in {folder.path} began with other settings "
            f"than these (fingerprint {fingerprint.study[:12]}); use the study file that began it, "
            "or give this study another `study` name"
        )


def _made_anew(folder: RunFolder, now: Fingerprint, place: str) -> Fingerprint:
    """Fingerprint `now` for a folder that lost its own; raises `RunFolderError` if the folder's
    trials have another."""
    lines = chain(read_lines(folder.records), read_lines(folder.journal))
    recorded = next((line["fingerprint"] for line in lines if "fingerprint" in line), None)
    if recorded is None:
        return now
    if recorded != now.study:
        raise RunFolderError(
            f"{folder.fingerprint} is lost. The trials of {folder.path} have the fingerprint "
            f"{str(recorded)[:12]}, but the study and {place} now give {now.study[:12]}; restore "
            "that file or the old data, or give the study another `study` name"
        )
    log.warning("%s is lost: it is written again from the records and the data", folder.fingerprint)
    return now


def keep_content(folder: RunFolder, place: str, fingerprint: Fingerprint, content: str) -> None:
    """Writes the digest of every byte of the data into the folder, or checks it.

    Raises:
        RunFolderError: if the data have changed since an earlier start.
    """
    if not fingerprint.content:
        write_fingerprint(folder, replace(fingerprint, content=content))
    elif content != fingerprint.content:
        raise _changed(folder, place, fingerprint.content, content)


@contextmanager
def content_read(
    folder: RunFolder,
    place: str,
    fingerprint: Fingerprint,
    read: Callable[[Callable[[], bool]], str | None],
) -> Iterator[Callable[[], None]]:
    """Context in which every byte of the data is read in the background.

    The context's value is a function that waits for the digest and writes it into the folder or
    checks it; it raises `RunFolderError` if the data have changed. `read` returns the digest: empty
    if there is nothing to read, and None once the function that `read` is given says to stop.
    """
    left = Event()
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(read, left.is_set)

        def keep() -> None:
            if content := digest.result():
                keep_content(folder, place, fingerprint, content)

        try:
            yield keep
        finally:
            left.set()


def _changed(folder: RunFolder, place: str, old: str, new: str) -> RunFolderError:
    return RunFolderError(
        f"the trials of {folder.path} were trained on other data: {place} has "
        f"changed since (digest {new[:12] or 'none'}, not {old[:12] or 'none'}); put "
        "the old data back, or give the study another `study` name"
    )
