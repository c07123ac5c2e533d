"""Published files by URL and checksum: fetched once into a cache folder, or read from a mirror.

Every read checks the sha256, so what comes back is the published file or an error. A mirror
replaces the network: with `FATHOM_MIRROR` set nothing is ever downloaded.
"""

import gzip
import hashlib
import importlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from fathom.objectives.errors import ObjectiveError
from fathom.objectives.files.reading import GZIP, open_regular

CACHE_VARIABLE = "FATHOM_CACHE"
MIRROR_VARIABLE = "FATHOM_MIRROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """Address and checksum of a published file."""

    url: str
    sha256: str
    """Checksum of the uncompressed content, in hex."""
    path: str
    """Path below the cache folder and below a mirror; in a mirror, `.gz` may follow."""


DOWNLOADS = {
    "tiny_shakespeare": Download(
        url="https://raw.githubusercontent.com/karpathy/char-rnn/"
        "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt",
        sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        path="tiny_shakespeare/input.txt",
    )
}


def cache_folder() -> Path:
    """The folder `$FATHOM_CACHE`, else `fathom` in `$XDG_CACHE_HOME` or `~/.cache`."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get(CACHE_VARIABLE) or Path(caches, "fathom")).expanduser()


def mirror_folder() -> Path | None:
    """The folder `$FATHOM_MIRROR`; None if files come from the network."""
    mirror = os.environ.get(MIRROR_VARIABLE)
    return Path(mirror).expanduser() if mirror else None


def read_download(download: Download) -> bytes:
    """Uncompressed content of a file, from the mirror if there is one, else through the cache."""
    source = mirror_file(download)
    remedy = f"replace it with {download.url} or unset {MIRROR_VARIABLE}"
    if source is None:
        source = cache_folder() / download.path
        remedy = "delete it and run again to download it afresh"
        if not source.exists():
            _download(download, source)
    return _checked(read_file(source, remedy), download, source=source, remedy=remedy)


def mirror_file(download: Download) -> Path | None:
    """The file in the mirror, plain or gzipped; None if files come from the network."""
    mirror = mirror_folder()
    if mirror is None:
        return None
    plain = mirror / download.path
    for file in (plain, plain.with_name(plain.name + ".gz")):
        if file.is_file():
            return file
    raise ObjectiveError(
        f"the mirror must hold {download.path} or {download.path}.gz, but {mirror} does not; "
        f"copy {download.url} there or unset {MIRROR_VARIABLE}"
    )


def read_file(path: Path, remedy: str = "check the path") -> bytes:
    """Content of a file, uncompressed if it is gzipped, whatever its name says.

    Raises:
        ObjectiveError: when it can't be read; the message ends in the remedy.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ObjectiveError(
            f"{path} must be a readable file, plain or a whole .gz, got: {reason}; {remedy}"
        ) from error


def _download(download: Download, target: Path) -> None:
    """Downloads a file and checks its sha256; the target appears whole or not at all."""
    fetching = importlib.import_module("fathom.objectives.files.fetching")  # pooch may not be there
    try:
        fetching.fetch(download.url, download.sha256, target)
    except (OSError, ValueError) as error:
        raise ObjectiveError(
            f"{download.url} must be reachable and as it was published, got {_reason(error)}; run "
            f"again, or set {MIRROR_VARIABLE} to a folder with {download.path}"
        ) from error


def _reason(error: Exception) -> str:
    """The cause of an error of requests, whose own text quotes the address and the attempts as
    well."""
    cause = getattr(error.args[0], "reason", None) if error.args else None
    return " ".join(str(cause or error).split()) or type(error).__name__


def _checked(content: bytes, download: Download, *, source: Path | str, remedy: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != download.sha256:
        raise ObjectiveError(f"sha256 of {source} must be {download.sha256}, got {found}; {remedy}")
    return content
