"""The key of a served page: each start makes a new key, and only requests with the key are
answered.

MLflow's server has no logins: on a machine that others use too, any of them could delete runs, and
run commands as the user who serves the page, through MLflow's assistant. The key is the beginning
of the path in every address. It is not a cookie, as a browser sends a cookie to all ports of a
host.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs

KEY_VARIABLE = "FATHOM_UI_KEY"
"""Environment variable by which MLflow's server gets the key; other users can't read it."""
REFUSAL = (
    "The address has no key, or that of an earlier start: open the one that `fathom ui` printed"
)
ENTRANCE = (
    "<!doctype html><meta charset=utf-8><title>Fathom</title><script>"
    # MLflow opens its assistant over the table in every browser that has not seen it.
    "try{{localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1','true')}}catch(e){{}}"
    "location.replace('/{secret}'+location.pathname+location.hash)</script>"
    "<noscript><a href=/{secret}/>Open the page</a></noscript>"
)
UNSEEN = {"cache-control": "no-store", "referrer-policy": "same-origin"}
"""Response headers that keep an address, which contains the key, out of caches and away from other
sites."""


@dataclass(frozen=True)
class Key:
    """A secret with which the path of every accepted address begins."""

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(16), repr=False)

    @property
    def query(self) -> str:
        """The key as a query at the end of an address, for opening the entrance page."""
        return f"?key={self.secret}"

    @property
    def entrance(self) -> str:
        """HTML of a page that opens the same address with the key at the beginning of its path."""
        return ENTRANCE.format(secret=self.secret)

    def is_in(self, query: str) -> bool:
        """True if the query of an address has the key."""
        return any(map(self._is_secret, parse_qs(query).get("key", [])))

    def path_behind(self, path: str) -> str | None:
        """The path of an address without the key at its beginning; None if the path lacks the
        key."""
        first, slash, rest = path.removeprefix("/").partition("/")
        return f"/{rest}" if slash and self._is_secret(first) else None

    def is_shown(self, headers: Mapping[str, str]) -> bool:
        """True if a request's headers have the key as the token of a client of MLflow
        (`MLFLOW_TRACKING_TOKEN`). Names of headers are in lower case."""
        return self._is_secret(headers.get("authorization", "").removeprefix("Bearer "))

    def _is_secret(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.secret.encode())
