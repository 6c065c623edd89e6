"""Secret values that this process knows, and their masking in everything that people read.

1. Whoever reads a secret (a Secret of Kubernetes, a variable of the environment, the answer of an
   identity service) notes it here, before it is used.
2. Errors mask their texts when they are made (`tideline.errors`); logs, events, statuses and the
   output of commands mask theirs where they leave the process. A server that repeats a token in a
   refusal so repeats three asterisks.

A value is also recognised in Base64, percent-encoded, and as JSON spells it. Values of fewer than
`LENGTH_MIN` characters are not masked: they are parts of ordinary words.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus, urlsplit

LENGTH_MIN = 6
MASK = "***"
_VALUES_MAX = 10_000
"""The oldest are forgotten: temporary credentials are renewed for as long as a process lives."""
_SECRET_WORDS = ("KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL", "AUTH", "SIGNATURE")
_NOT_SECRET = re.compile(r".*(_FILE|_PATH|_URI|_URL|_ENDPOINT|_ID|_NAME|_TYPE)$")

_lock = threading.Lock()
_values: dict[str, None] = {}
_pattern: re.Pattern[str] | None = None


def note_secrets(values: Iterable[str | None]) -> None:
    """Mask these values from now on."""
    global _pattern
    spelled = {one for value in values if value for one in _spellings(value.strip())}
    with _lock:
        new = [one for one in spelled if len(one) >= LENGTH_MIN and one not in _values]
        if not new:
            return
        _values.update(dict.fromkeys(new))
        for oldest in list(_values)[: max(0, len(_values) - _VALUES_MAX)]:
            del _values[oldest]
        # The longest first: one value may be the beginning of another.
        _pattern = re.compile("|".join(map(re.escape, sorted(_values, key=len, reverse=True))))


def note_environment(environment: Mapping[str, str]) -> None:
    """Mask the values of variables that are named like secrets, and passwords in addresses."""
    note_secrets(text for name, text in environment.items() if is_secret_name(name))
    note_secrets(map(_password_in, environment.values()))


def is_secret_name(name: str) -> bool:
    """Whether a variable or property of this name holds a secret."""
    upper = name.upper().replace("-", "_").replace(".", "_")
    return any(word in upper for word in _SECRET_WORDS) and not _NOT_SECRET.fullmatch(upper)


def masked(text: str) -> str:
    """`text` with every known secret value replaced by three asterisks."""
    pattern = _pattern
    return text if pattern is None else pattern.sub(MASK, text)


def _spellings(value: str) -> set[str]:
    encoded = base64.b64encode(value.encode()).decode()
    return {value, encoded, encoded.rstrip("="), quote(value, safe=""), quote_plus(value),
            json.dumps(value)[1:-1]}  # fmt: skip


def _password_in(text: str) -> str | None:
    if "://" not in text or "@" not in text:
        return None
    try:
        return urlsplit(text).password
    except ValueError:
        return None
