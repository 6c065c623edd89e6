"""Requests to a Glue Data Catalog: one action, its answer, and how often it is tried.

1. A refusal for which Glue had no time (`ThrottlingException` and the like) did not take place: it
   is tried again, as often as AWS's own client does.
2. What only reads is tried again as well when no answer came, or Glue failed, unless it is for a
   table of others.
3. A change is not: it may have taken place, and the second would be refused because of the first.
4. Credentials that have ended are fetched once more.

Answers are data, read within the limits of metadata that others wrote. Redirects are not followed.

Source: AWS, "AWS Glue Web API Reference", and its common errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from tideline.bounded.parsing import parse_json
from tideline.bounded.read_limits import read_limits, too_large
from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError, CorruptTableError, StorageUnavailableError, TidelineError
from tideline.glue.address import GlueAddress
from tideline.glue.keys import Keys, RenewedKeys
from tideline.glue.signature import signed_headers
from tideline.retry import RetryPolicy
from tideline.storage.egress.route import EgressRoute
from tideline.storage.remote.post import NoAnswerError, answer_to_post
from tideline.trust.foreign_words import quoted

TIMEOUT_S = 60.0
PAGES_MAX = 10_000
"""Of one listing."""
_SERVICE, _TARGET = "glue", "AWSGlue"
_TRIES = RetryPolicy(retries=9, wait_ms_min=200, wait_ms_max=20_000, total_ms=120_000)
_TRIES_FOR_OTHERS = RetryPolicy(retries=2, wait_ms_min=200, wait_ms_max=1_000)
"""Of a process that looks at the tables of others: it comes back soon."""
_READS = ("Get", "BatchGet", "List", "Search")
_CODE = re.compile(r"\w{1,100}")
_THROTTLED = re.compile(
    r"Throttl|RequestLimitExceeded|TooManyRequests|ProvisionedThroughputExceeded|SlowDown"
)
_DENIED = ("AccessDenied", "UnrecognizedClient", "InvalidClientTokenId", "InvalidSignature",
           "IncompleteSignature", "MissingAuthenticationToken", "SignatureDoesNotMatch",
           "OptInRequired", "NotAuthorized", "InvalidToken")  # fmt: skip
_ENDED = ("ExpiredToken", "RequestExpired")
_DOUBTFUL = ("InternalService", "InternalFailure", "OperationTimeout", "ServiceUnavailable")


class Refusal(Enum):
    """Why Glue did not do what was asked."""

    MISSING = "EntityNotFoundException"
    EXISTS = "AlreadyExistsException"
    CHANGED = "ConcurrentModificationException"
    DENIED = "denied"
    BUSY = "busy"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Refused:
    """An action that certainly did not take place, in Glue's words."""

    reason: Refusal
    code: str
    words: str

    def error(self, **subject: str) -> TidelineError:
        """As an error about `subject`, where nothing else follows from it."""
        if self.reason is Refusal.DENIED:
            return StorageUnavailableError(f"Glue denies access: {self}", **subject)
        if self.reason is Refusal.BUSY:
            message = f"Glue had no time for a request, which did not take place: {self}"
            return StorageUnavailableError(message, **subject)
        return ConfigError(f"Glue refuses a request: {self}", **subject)

    def __str__(self) -> str:
        return f"{self.code}: {self.words}" if self.words else self.code


Answer: TypeAlias = dict[str, Any]


class GlueClient:
    """One catalog, for one author's keys. `route_to` gives the way to a URL where requests leave
    through a proxy; it may raise."""

    def __init__(
        self,
        address: GlueAddress,
        keys: Keys,
        *,
        route_to: Callable[[str], EgressRoute] | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        self.address = address
        self._keys = keys
        self._route_to = route_to
        self._tries = _TRIES if route_to is None else _TRIES_FOR_OTHERS
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()

    def call(self, action: str, request: Mapping[str, Any]) -> Answer | Refused:
        """What is answered, or why it was refused.

        Raises StorageUnavailableError: then it is unknown what became of a change.
        """
        is_read = action.startswith(_READS) and self._route_to is None
        found: Answer | Refused | StorageUnavailableError
        for attempt in self._tries.attempts(self._clock):
            found = self._tried(action, request)
            if isinstance(found, Refused):
                has_ended = attempt == 1 and found.code.startswith(_ENDED)
                if has_ended and isinstance(self._keys, RenewedKeys):
                    self._keys.forget()
                elif found.reason is not Refusal.BUSY:
                    break
            elif not (isinstance(found, StorageUnavailableError) and is_read):
                break
        if isinstance(found, StorageUnavailableError):
            raise found
        return found

    def pages(
        self, action: str, request: Mapping[str, Any], listed: str
    ) -> Iterator[list[Any] | Refused]:
        """The lists `listed` of all pages; a refusal is the last. Raises as `call`, and
        CorruptTableError for a listing without an end."""
        more: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            found = self.call(action, {**request, **more})
            if isinstance(found, Refused):
                yield found
                return
            page, token = found.get(listed) or [], found.get("NextToken")
            if not isinstance(page, list):
                raise CorruptTableError(f"Glue's answer has no {listed}", value=str(self.address))
            yield page
            if not token:
                return
            if token == more.get("NextToken"):
                break
            more = {"NextToken": str(token)}
        raise CorruptTableError("Glue's listing has no end", value=str(self.address))

    def _tried(
        self, action: str, request: Mapping[str, Any]
    ) -> Answer | Refused | StorageUnavailableError:
        account = self.address.account
        content = {**request, "CatalogId": account} if account else request
        body = json.dumps(content).encode()
        url, limit = self.address.url, read_limits().object_bytes_max
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{_TARGET}.{action}",
        }
        signed = signed_headers(
            url, headers, body, self._keys(), region=self.address.region, service=_SERVICE,
            now_s=self._clock.now_ms() / 1000,
        )  # fmt: skip
        route = None if self._route_to is None else self._route_to(url)
        try:
            status, answer = answer_to_post(
                url, body, signed, timeout_s=self._timeout_s, bytes_max=limit + 1, route=route
            )
        except NoAnswerError as error:
            message = f"Glue does not answer: {quoted(error)}"
            return StorageUnavailableError(message, value=str(self.address))
        if len(answer) > limit:
            raise too_large("Glue's answer", limit, path=url)
        if 200 <= status < 300:
            return self._content(answer)
        return self._refused(status, answer)

    def _content(self, answer: bytes) -> Answer:
        content = parse_json(answer or b"{}", path=self.address.url, what="Glue's answer")
        if not isinstance(content, dict):
            raise CorruptTableError("Glue's answer is no object", value=str(self.address))
        return content

    def _refused(self, status: int, answer: bytes) -> Refused | StorageUnavailableError:
        try:
            content = self._content(answer)
        except TidelineError:
            content = {}
        found = _CODE.search(str(content.get("__type", "")).rpartition("#")[2])
        code = found[0] if found else f"HTTP {status}"
        words = quoted(content.get("Message") or content.get("message") or "")
        refused = Refused(_reason(status, code), code, words)
        is_doubtful = status >= 500 or code.startswith(_DOUBTFUL) or not found
        if is_doubtful and refused.reason is not Refusal.BUSY:
            message = f"Glue does not answer: {refused}"
            return StorageUnavailableError(message, value=str(self.address))
        return refused


def _reason(status: int, code: str) -> Refusal:
    if _THROTTLED.search(code) or status == 429:
        return Refusal.BUSY
    if code.startswith((*_DENIED, *_ENDED)) or status == 403:
        return Refusal.DENIED
    known = {reason.value: reason for reason in Refusal}
    return known.get(code, Refusal.INVALID)
