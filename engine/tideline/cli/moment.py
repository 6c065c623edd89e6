"""Moments on the command line: `7d`, `36h` or `90m` ago, or a time such as 2026-11-21T10:00."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tideline.errors import ConfigError

_AGO = re.compile(r"(\d+)\s*([dhms])")
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


def parse_moment(text: str, *, now_ms: int, option: str) -> int:
    """Milliseconds since 1970; a time without a zone is UTC. Raises ConfigError."""
    match = _AGO.fullmatch(text.strip())
    if match:
        return now_ms - int(match[1]) * _UNIT_MS[match[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        message = f"{option} takes an age such as 7d, 36h, 90m, or a time such as 2026-11-21T10:00"
        raise ConfigError(message, value=text) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
