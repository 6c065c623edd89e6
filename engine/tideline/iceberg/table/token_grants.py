"""Tokens of a REST catalog: how they are asked for, and when they are replaced. Pure.

- `credential` is exchanged for a token (client credentials), `token` is one.
- `subject-token`, a user's or a workload's, is exchanged for a token of the catalog; the token
  that `credential` or `token` gives acts for it.
- A token that is about to end is exchanged for the next one, unless `token-exchange-enabled` is
  false.

Source: Iceberg's REST specification and its Java client, RFC 6749 (4.4), RFC 8693 (2.1, 2.2).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import parse_json
from tideline.errors import ConfigError, TidelineError
from tideline.iceberg.table.s3_properties import text_of
from tideline.trust.foreign_words import quoted

TOKEN, CREDENTIAL = "token", "credential"
SUBJECT, SUBJECT_TYPE = "subject-token", "subject-token-type"
EXCHANGES, RENEWS, LIFE_MS = (
    "token-exchange-enabled", "token-refresh-enabled", "token-expires-in-ms",
)  # fmt: skip
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE_PREFIX = "urn:ietf:params:oauth:token-type:"
TYPES = ("access_token", "refresh_token", "id_token", "saml1", "saml2", "jwt")
ACCESS_TOKEN = f"{TYPE_PREFIX}access_token"
MARGIN_S_MAX = 300.0
_SCOPE = "catalog"
_LIFE_S_MAX = 10 * 365 * 86_400.0
_TIME_S_MAX = 1e11
_FALSE = "false"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its type. It ends at `ends_s` and is replaced from `renew_s` on, in seconds of
    the epoch; neither ever comes where nobody says when it ends."""

    text: str = field(repr=False)
    kind: str = ACCESS_TOKEN
    ends_s: float = math.inf
    renew_s: float = math.inf

    @classmethod
    def lasting(cls, text: str, kind: str, now_s: float, *lives_s: float | None) -> Token:
        """One that is there `now_s`. It ends with the shortest of some lives, those that are None
        left out, and no later than it says itself."""
        said = _said_end_s(text)
        lives = [life for life in lives_s if life is not None]
        if said is not None and said > now_s:
            lives.append(said - now_s)
        # What has ended when it comes is of a clock that differs: only the server knows.
        life_s = min(lives, default=math.inf)
        margin_s = min(life_s / 10, MARGIN_S_MAX)
        return cls(text, kind, now_s + life_s, now_s + life_s - margin_s)


@dataclass(frozen=True, slots=True)
class TokenGrants:
    """What a catalog's configuration says of its tokens. `asked` goes with each request: scope,
    audience, resource."""

    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    subject: str | None = field(default=None, repr=False)
    subject_type: str = ACCESS_TOKEN
    asked: Mapping[str, str] = field(default_factory=dict)
    exchanges: bool = True
    renews: bool = True
    life_s: float | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> TokenGrants:
        """Those of a catalog's properties. Raises ConfigError."""
        exchanges = str(given.get(EXCHANGES, "true")).lower() != _FALSE
        subject = given.get(SUBJECT) or None
        if subject is not None and not exchanges:
            raise ConfigError(f"a {SUBJECT} is exchanged: leave {EXCHANGES}=false out")
        audience = {name: given[name] for name in ("audience", "resource") if given.get(name)}
        return cls(
            given.get(TOKEN),
            given.get(CREDENTIAL),
            subject,
            token_type(given.get(SUBJECT_TYPE) or ACCESS_TOKEN),
            {"scope": given.get("scope") or _SCOPE, **audience},
            exchanges,
            str(given.get(RENEWS, "true")).lower() != _FALSE,
            _life_s(given.get(LIFE_MS)),
        )

    @property
    def basic(self) -> str | None:
        """The header by which a client with a name and a secret says who it is."""
        if self.credential is None or ":" not in self.credential:
            return None
        return f"Basic {base64.b64encode(self.credential.encode()).decode()}"

    def by_credential(self) -> dict[str, str]:
        """The form of a request that needs no token."""
        name, found, secret = (self.credential or "").partition(":")
        client = {"client_id": name, "client_secret": secret} if found else {"client_secret": name}
        return {"grant_type": "client_credentials", **client, **self.asked}

    def by_exchange(self, text: str, kind: str, actor: Token | None = None) -> dict[str, str]:
        """The form of a request that exchanges a token, `actor` acting for its subject."""
        acting = (
            {} if actor is None else {"actor_token": actor.text, "actor_token_type": actor.kind}
        )
        subject = {"subject_token": text, "subject_token_type": kind}
        return {"grant_type": EXCHANGE, **subject, **acting, **self.asked}


def answered_token(document: object, now_s: float) -> Token:
    """The token of an answer. Raises ConfigError, which does not repeat the answer."""
    found = document if isinstance(document, dict) else {}
    text = text_of(found.get("access_token"))
    if text is None or not isinstance(found["access_token"], str):
        raise ConfigError("the answer to a request for a token has none that a header can hold")
    kind, life_s = found.get("issued_token_type"), _seconds(found.get("expires_in"), _LIFE_S_MAX)
    known = isinstance(kind, str) and kind.removeprefix(TYPE_PREFIX) in TYPES
    return Token.lasting(text, str(kind) if known else ACCESS_TOKEN, now_s, life_s)


def token_type(text: object) -> str:
    """A type of tokens, which may be given without what all begin with. Raises ConfigError."""
    word = str(text).removeprefix(TYPE_PREFIX)
    if word not in TYPES:
        raise ConfigError(f"{SUBJECT_TYPE} is one of {', '.join(TYPES)}", value=quoted(text))
    return f"{TYPE_PREFIX}{word}"


def _life_s(text: object) -> float | None:
    if text is None:
        return None
    if not str(text).isascii() or not str(text).isdigit() or not 0 < len(str(text)) <= 15:
        raise ConfigError(f"{LIFE_MS} is a number of milliseconds", value=quoted(text))
    return int(str(text)) / 1000


def _said_end_s(text: str) -> float | None:
    """When a token ends by its own words, where it is a JWT that says so; nothing is verified."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = parse_json(body, path="", what="the claims of a token")
    except (binascii.Error, ValueError, TidelineError):
        return None
    return _seconds(claims.get("exp"), _TIME_S_MAX) if isinstance(claims, dict) else None


def _seconds(value: object, below: float) -> float | None:
    """A number of seconds that others wrote; None for what is none, or out of all bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < below else None
