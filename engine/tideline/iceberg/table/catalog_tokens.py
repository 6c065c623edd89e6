"""The tokens that requests to a REST catalog carry: asked for, replaced before they end.

1. A token is replaced when a tenth of its life is left, at most five minutes: by exchange, where
   that is not switched off and the server has not refused it; else as the first one came.
2. Where nothing but the token itself leads to the next one, a timer replaces it, so that a process
   without requests for hours still has one. The timer ends with the catalog.
3. A token that cannot be replaced is used until the server refuses it: only that knows the time.
4. After a refusal (401, 419) a new one is asked for as the first one was.

An exchange shows the token in the header `Authorization`, as the specification has it. Where that
is refused and there is a credential with a name, that is shown instead (RFC 6749, 2.3.1).

Needs the extra `iceberg`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from pydantic import ValidationError
from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.exceptions import OAuthError, RESTError
from requests import RequestException

from tideline.errors import TidelineError
from tideline.iceberg.table.token_grants import ACCESS_TOKEN, Token, TokenGrants, answered_token
from tideline.secret_values import note_secrets
from tideline.trust.foreign_words import quoted

_RETRY_S, _DEAD_S = 10.0, 300.0
"""Between two attempts, before a token has ended and after."""
_TIMER_S_MAX = 3_600.0
FAULTS = (RequestException, RESTError, ValidationError, TidelineError, OSError)
_log = logging.getLogger(__name__)


class TokenServer(Protocol):
    """Where tokens come from."""

    def __call__(self, form: dict[str, str], authorization: str | None) -> object:
        """The answer to a request. Raises OAuthError where it is refused, and what requests and
        the reading of answers raise."""


class CatalogTokens(AuthManager):
    """The token of one catalog, for any number of threads. `now_s` is the present."""

    def __init__(
        self,
        catalog: str,
        grants: TokenGrants,
        server: TokenServer,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Asks for the first token. Raises what the server raises."""
        self._catalog = catalog
        self._grants = grants
        self._server = server
        self._now_s = now_s
        self._renewing = threading.Lock()
        self._timing = threading.Lock()
        self._is_refused = False
        self._renew_s = math.inf
        self._end_timer: weakref.finalize[..., CatalogTokens] | None = None
        self._token: Token | None = None
        self._take(self._first())

    def auth_header(self) -> str | None:
        """None where there is no token."""
        self._renew_when_due()
        return None if self._token is None else f"Bearer {self._token.text}"

    def replace_refused(self) -> None:
        """A server has refused the token. Raises what the server of tokens raises."""
        if not self._grants.credential and not self._grants.subject:
            return
        with self._renewing:
            self._take(self._first())

    def _first(self) -> Token | None:
        """The token that the configuration leads to."""
        grants = self._grants
        own: Token | None = None
        if grants.credential is not None:
            own = self._asked(grants.by_credential(), None)
        elif grants.token is not None:
            own = Token.lasting(grants.token, ACCESS_TOKEN, self._now_s(), grants.life_s)
        if grants.subject is None:
            return own
        return self._exchanged(grants.subject, grants.subject_type, own, shown=own)

    def _next(self, token: Token) -> Token | None:
        """The one after a token that is about to end; None where there is none."""
        grants = self._grants
        if grants.exchanges and not self._is_refused and token.ends_s > self._now_s():
            try:
                return self._exchanged(token.text, token.kind, None, shown=token)
            except OAuthError:
                if not grants.credential and not grants.subject:
                    raise
                self._is_refused = True
        return self._first() if grants.credential or grants.subject else None

    def _exchanged(self, text: str, kind: str, actor: Token | None, shown: Token | None) -> Token:
        form = self._grants.by_exchange(text, kind, actor)
        basic = self._grants.basic
        if shown is None:
            return self._asked(form, basic)
        try:
            return self._asked(form, f"Bearer {shown.text}")
        except OAuthError:
            if basic is None:
                raise
            return self._asked(form, basic)

    def _asked(self, form: dict[str, str], authorization: str | None) -> Token:
        began_s = self._now_s()
        token = answered_token(self._server(form, authorization), began_s)
        note_secrets([token.text], are_passing=True)
        return token

    def _take(self, token: Token | None) -> None:
        self._token = token
        self._renew_s = token.renew_s if token is not None and self._grants.renews else math.inf
        self._set_timer()

    def _renew_when_due(self) -> None:
        """One thread asks for the next token; the others wait for it only once this one has
        ended."""
        token, now_s = self._token, self._now_s()
        if token is None or now_s < self._renew_s:
            return
        if not self._renewing.acquire(blocking=now_s >= token.ends_s):
            return
        try:
            if self._token is not None and self._now_s() >= self._renew_s:
                self._renew(self._token)
        finally:
            self._renewing.release()

    def _renew(self, token: Token) -> None:
        try:
            found = self._next(token)
        except FAULTS as error:
            now_s = self._now_s()
            _log.warning(
                "catalog %s: its token %s and was not replaced: %s",
                self._catalog,
                "has ended" if token.ends_s <= now_s else "is about to end",
                quoted(error),
            )
            left_s = token.ends_s - now_s
            self._renew_s = now_s + (max(_RETRY_S, left_s / 3) if left_s > 0 else _DEAD_S)
            self._set_timer()
            return
        if found is None:
            self._renew_s = math.inf
        else:
            self._take(found)

    def _set_timer(self) -> None:
        """See rule 2."""
        with self._timing:
            if self._end_timer is not None:
                self._end_timer()
                self._end_timer = None
            if self._grants.credential is not None or not math.isfinite(self._renew_s):
                return
            wait_s = min(max(self._renew_s - self._now_s(), 0.0), _TIMER_S_MAX)
            timer = threading.Timer(wait_s, _look_again, (weakref.ref(self),))
            timer.daemon = True
            timer.name = f"token of {self._catalog}"
            self._end_timer = weakref.finalize(self, timer.cancel)
            timer.start()


def _look_again(of: weakref.ref[CatalogTokens]) -> None:
    tokens = of()
    if tokens is not None:
        tokens.auth_header()
        tokens._set_timer()
