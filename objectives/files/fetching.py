"""Downloads over HTTP by pooch; the one module that needs it, as only downloads do."""

import logging
from pathlib import Path

import pooch

TIMEOUT_SECONDS = 30.0
"""Longest wait for the next bytes of a server."""
PUBLIC = 0o644
"""Mode of a file in the cache, which other users may read: it was published."""


def fetch(url: str, sha256: str, target: Path) -> None:
    """Downloads a file; it appears whole or not at all.

    Raises:
        OSError: if the server does not answer, or refuses.
        ValueError: if the content has another sha256.
    """
    pooch.get_logger().setLevel(logging.ERROR)
    pooch.retrieve(
        url,
        f"sha256:{sha256}",
        fname=target.name,
        path=target.parent,
        downloader=pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS),
    )
    target.chmod(PUBLIC)  # pooch's temporary file was this user's alone
