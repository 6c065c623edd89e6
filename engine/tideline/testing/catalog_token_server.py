"""A server of OAuth2 tokens on loopback, by RFC 6749 and RFC 8693.

    with TokenServer() as tokens:
        tokens.clients["engine"] = "its secret"
        tokens.subjects["a token of a user"] = "urn:ietf:params:oauth:token-type:jwt"

It gives out tokens for `life_s`, exchanges those of its own that have not ended and those of
`subjects`, and records what it was asked. `holds` says whether a token has not ended: for catalogs
that refuse others.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from tideline.testing.hostile_catalog import Answer, Received
from tideline.testing.loopback_server import LoopbackServer
from tideline.testing.served_catalog import ServedCatalog, refusal

CLIENT_GRANT = "client_credentials"
EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_TYPES = "urn:ietf:params:oauth:token-type:"
_ACCESS_TOKEN = f"{_TYPES}access_token"


@dataclass(frozen=True)
class TokenRequest:
    """What the server was asked."""

    form: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def grant(self) -> str:
        return self.form.get("grant_type", "")

    @property
    def authorization(self) -> str:
        return self.headers.get("Authorization", "")


class RefusedError(Exception):
    """The code of an error, as RFC 6749 has them."""


class TokenServer(LoopbackServer):
    """See the module. `exchanges`: whether it does; `wants_client`: whether it exchanges for
    clients alone that say who they are; `writes_jwt`: whether its tokens are JWTs."""

    def __init__(self) -> None:
        self.clients: dict[str, str] = {}
        self.subjects: dict[str, str] = {}
        self.asked: list[TokenRequest] = []
        self.life_s = 3600.0
        self.says_life = True
        self.exchanges = True
        self.wants_client = False
        self.writes_jwt = False
        self.is_away = False
        self._ends_s: dict[str, float] = {}
        self._numbers = itertools.count(1)
        super().__init__(partial(_Handler, self))

    @property
    def address(self) -> str:
        """Where tokens are asked for."""
        return f"{self.url}/realms/lake/token"

    def issue(self) -> str:
        """A token that was given out another way."""
        return self._issued()

    def end(self, token: str) -> None:
        """The token holds no more."""
        self._ends_s[token] = 0.0

    def holds(self, authorization: str) -> bool:
        """Whether a header shows a token that has not ended."""
        kind, _, token = authorization.partition(" ")
        return kind == "Bearer" and self._ends_s.get(token, 0.0) > time.time()

    def answer(self, request: TokenRequest) -> dict[str, object]:
        """Raises RefusedError."""
        self.asked.append(request)
        form, life_s = request.form, self.life_s
        if request.grant == CLIENT_GRANT:
            if self.clients.get(form.get("client_id", "")) != form.get("client_secret", ""):
                raise RefusedError("invalid_client")
        elif request.grant == EXCHANGE_GRANT and self.exchanges:
            self._check_exchange(request)
        else:
            raise RefusedError("unsupported_grant_type")
        token = self._issued()
        answer: dict[str, object] = {"access_token": token, "token_type": "Bearer"}
        if self.says_life:
            answer["expires_in"] = int(life_s)
        if request.grant == EXCHANGE_GRANT:
            answer["issued_token_type"] = _ACCESS_TOKEN
        return answer

    def _check_exchange(self, request: TokenRequest) -> None:
        form, shown = request.form, request.authorization
        if shown.startswith("Basic "):
            name, _, secret = base64.b64decode(shown[6:]).decode().partition(":")
            if self.clients.get(name) != secret:
                raise RefusedError("invalid_client")
        elif self.wants_client or (shown and not self.holds(shown)):
            raise RefusedError("invalid_client")
        subject, kind = form.get("subject_token", ""), form.get("subject_token_type", "")
        is_own = self.holds(f"Bearer {subject}") and kind == _ACCESS_TOKEN
        if not is_own and self.subjects.get(subject) != kind:
            raise RefusedError("invalid_grant")
        if ("actor_token" in form) != ("actor_token_type" in form):
            raise RefusedError("invalid_request")
        if "actor_token" in form and not self.holds(f"Bearer {form['actor_token']}"):
            raise RefusedError("invalid_grant")

    def _issued(self) -> str:
        number, ends_s = next(self._numbers), time.time() + self.life_s
        token = f"issued-token-number-{number:04}"
        if self.writes_jwt:
            claims = json.dumps({"jti": token, "exp": ends_s}).encode()
            token = f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.signature"
        self._ends_s[token] = ends_s
        return token


class DemandingCatalog(ServedCatalog):
    """A catalog that refuses requests without a token of a server's that has not ended."""

    def __init__(self, tokens: TokenServer, status: int = 401) -> None:
        super().__init__()
        self.refused = 0
        self._tokens = tokens
        self._status = status
        self.reply = self._checked

    def _checked(self, request: Received) -> Answer:
        if self._tokens.holds(request.headers.get("Authorization", "")):
            return self.honest(request)
        self.refused += 1
        return refusal(self._status, "NotAuthorizedException", "token ended")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, server: TokenServer, *given: object) -> None:
        self._tokens = server
        super().__init__(*given)  # type: ignore[arg-type]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        form = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
        if self._tokens.is_away:
            self.close_connection = True
            return
        try:
            found = self._tokens.answer(TokenRequest(form, dict(self.headers.items())))
            self._send(200, found)
        except RefusedError as refused:
            self._send(400, {"error": str(refused), "error_description": "as the test has it"})

    def _send(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
