"""Keys that let a change of a REST catalog be sent again: the server does it once. Pure.

A server says in its `/v1/config` for how long it remembers a key; without that it remembers none.
Source: Iceberg's REST specification (`Idempotency-Key`, `idempotency-key-lifetime`), RFC 9562.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

HEADER = "Idempotency-Key"
CONFIG_FIELD = "idempotency-key-lifetime"
_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,6})M)?(?:(?P<seconds>\d{1,9})(?:\.\d+)?S)?)?"
)
_UNITS_S = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


@dataclass(slots=True)
class Remembered:
    """What a server's last configuration says: for how many seconds it remembers a key."""

    seconds: int = 0

    def take(self, document: object) -> None:
        """An answer of `/v1/config`. A lifetime that cannot be read is none."""
        text = document.get(CONFIG_FIELD) if isinstance(document, dict) else None
        found = _DURATION.fullmatch(text) if isinstance(text, str) else None
        parts = {} if found is None else found.groupdict()
        self.seconds = sum(int(parts[unit] or 0) * _UNITS_S[unit] for unit in parts)


def new_key(now_ms: int, random: bytes) -> str:
    """A UUID of version 7: milliseconds, then ten bytes that are random."""
    body = bytearray(now_ms.to_bytes(6, "big") + random)
    body[6] = body[6] & 0x0F | 0x70
    body[8] = body[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(body)))
