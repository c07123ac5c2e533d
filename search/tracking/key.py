"""The key of a page that is served: each start has another, and only who knows it is let in.

MLflow's server has no logins: on a machine that others use too, any of them could delete runs, and
run commands as the user who serves the page, through MLflow's assistant.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

KEY_VARIABLE = "FATHOM_UI_KEY"
"""Environment variable of MLflow's server with the key; other users can't read it."""
REFUSAL = (
    "The address has no key, or that of an earlier start: open the one that `fathom ui` printed"
)
ENTRANCE = (
    "<!doctype html><meta charset=utf-8><title>Fathom</title><script>"
    # MLflow opens its assistant over the table in every browser that has not seen it.
    "try{localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1','true')}catch(e){}"
    "location.replace(location.pathname+location.hash)</script>"
    "<noscript><a href=.>Open the page</a></noscript>"
)
"""A page that opens its own address without the key, which would stay in the browser's history."""


@dataclass(frozen=True)
class Key:
    """A secret that a browser sends with each request: in the first address, then as a cookie."""

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(16), repr=False)

    @property
    def query(self) -> str:
        """The key as the end of an address."""
        return f"?key={self.secret}"

    @property
    def cookie(self) -> str:
        """The header that makes a browser keep the key, for all ports of this host."""
        return f"{self._name}={self.secret}; Path=/; HttpOnly; SameSite=Strict"

    def is_in(self, query: str) -> bool:
        """True if the query of an address has the key."""
        return any(map(self._is_secret, parse_qs(query).get("key", [])))

    def is_shown(self, headers: Mapping[str, str]) -> bool:
        """True if a request's headers have the key, as the cookie of a browser or as the token of a
        client of MLflow (`MLFLOW_TRACKING_TOKEN`). Names of headers are in lower case."""
        if self._is_secret(headers.get("authorization", "").removeprefix("Bearer ")):
            return True
        try:
            kept = SimpleCookie(headers.get("cookie", "")).get(self._name)
        except CookieError:
            return False
        return kept is not None and self._is_secret(kept.value)

    @property
    def _name(self) -> str:
        """The name of the cookie, another for each start: two pages may be open side by side."""
        return f"fathom-{sha256(self.secret.encode()).hexdigest()[:8]}"

    def _is_secret(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.secret.encode())
