"""Fields of a message, read within the bytes that are there.

What a server sends is believed in nothing: a length that is longer than the message is an error.
"""

from __future__ import annotations

from dataclasses import dataclass


class WireError(Exception):
    """Bytes that are not what the protocol says."""


@dataclass(slots=True)
class FieldReader:
    """The fields of one message, in their order. Everything raises WireError at its end."""

    body: bytes
    at: int = 0

    def take(self, length: int) -> bytes:
        """As many bytes."""
        if not 0 <= length <= len(self.body) - self.at:
            raise WireError("a message is cut off")
        self.at += length
        return self.body[self.at - length : self.at]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)
