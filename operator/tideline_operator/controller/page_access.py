"""Access to the pages of a controller: with a token, or from the pod itself alone.

1. With a token, from a file that a Secret is mounted as, requests need it: as a bearer token, or as
   the password of any user, which browsers ask for. The file is read each time: Secrets change.
2. After a wrong one the same address waits `WAIT_S`: until then nothing that it gives is looked at.
3. Without a token the server listens on the loopback interface (`kubectl port-forward` reaches
   it), and answers to that interface's names only.
"""

from __future__ import annotations

import threading
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path

from tideline.errors import ConfigError
from tideline.report.own_names import is_own_name
from tideline.secret_values import note_secrets

LOOPBACK = "127.0.0.1"
EVERYWHERE = ""
TOKEN_LENGTH_MIN = 16
WAIT_S = 1.0
_ADDRESSES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Refused:
    """What is answered instead of a page."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


class PageAccess:
    """Checks requests, for any number of threads. Raises ConfigError when the token is no good."""

    def __init__(self, token_file: Path | None, monotonic_s: Callable[[], float]) -> None:
        self._token_file = token_file
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._failed_s: OrderedDict[str, float] = OrderedDict()
        if token_file is not None:
            self._token(token_file)

    @property
    def host(self) -> str:
        """Where the server may listen."""
        return LOOPBACK if self._token_file is None else EVERYWHERE

    def refusal(self, headers: Mapping[str, str], address: str) -> Refused | None:
        """Why a request from `address` gets no page; None when it may have it."""
        if self._token_file is None:
            is_own = is_own_name(headers.get("Host") or "", LOOPBACK)
            return None if is_own else Refused(403, "ask for localhost\n")
        given = _given(headers.get("Authorization") or "")
        if not given:
            return _UNKNOWN
        if self._must_wait(address):
            return Refused(429, "wait a second\n", {"Retry-After": "1"})
        try:
            token = self._token(self._token_file)
        except ConfigError as error:
            return Refused(503, f"{error.message}\n")
        if compare_digest(given.encode(), token.encode()):
            return None
        self._note_failure(address)
        return _UNKNOWN

    def _token(self, file: Path) -> str:
        try:
            token = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("the token of the pages cannot be read", path=file) from error
        note_secrets([token])
        if len(token) < TOKEN_LENGTH_MIN:
            raise ConfigError(
                f"the token of the pages must have at least {TOKEN_LENGTH_MIN} characters",
                path=file,
            )
        return token

    def _must_wait(self, address: str) -> bool:
        with self._lock:
            failed_s = self._failed_s.get(address)
        return failed_s is not None and self._monotonic_s() - failed_s < WAIT_S

    def _note_failure(self, address: str) -> None:
        with self._lock:
            self._failed_s[address] = self._monotonic_s()
            self._failed_s.move_to_end(address)
            if len(self._failed_s) > _ADDRESSES_MAX:
                self._failed_s.popitem(last=False)


_UNKNOWN = Refused(
    401, "these pages need a token\n", {"WWW-Authenticate": 'Basic realm="Tideline", Bearer'}
)


def _given(authorization: str) -> str:
    """The token in a header; empty where there is none."""
    scheme, _, text = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return text.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return b64decode(text.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""
