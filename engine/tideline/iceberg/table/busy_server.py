"""How long a request waits for a server that is busy: as it says, else doubling waits. Pure.

429 and 503 mean that the request was not handled. After 500, 502 and 504 it may have been: it is
sent again where the server remembers it by its key. Source: Iceberg's REST specification, RFC 9110
section 10.2.3 (Retry-After).
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from tideline.backoff import doubled

TOO_MANY_REQUESTS = 429
UNKNOWN = (500, 502, 503, 504)
"""The request may have been handled, by a server behind the one that answers."""
ATTEMPTS_MAX = 5
_BUSY = (TOO_MANY_REQUESTS, 503)
_FIRST_WAIT_S = 0.5


def busy_wait_s(
    status: int,
    headers: Mapping[str, str],
    attempt: int,
    now_s: float,
    *,
    is_remembered: bool = False,
) -> float | None:
    """Seconds to wait before the request is sent again, after its `attempt`, the first being 1;
    None where it is not. `now_s` is the present in seconds of the epoch. One that `is_remembered`
    is sent again as well where it is unknown what became of it."""
    again = (*_BUSY, *UNKNOWN) if is_remembered else _BUSY
    if status not in again or attempt >= ATTEMPTS_MAX:
        return None
    said_s = _retry_after_s(headers.get("Retry-After", "").strip(), now_s)
    return doubled(_FIRST_WAIT_S, attempt - 1) if said_s is None else said_s


def _retry_after_s(text: str, now_s: float) -> float | None:
    """A number of seconds, or a date; None for neither."""
    if text.isascii() and text.isdigit():
        return float(text[:10])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None
