"""Fields of requests and answers as Kafka's protocol has them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import TypeVar

from tideline.ingest.sources.wire.field_reader import FieldReader, WireError

_Item = TypeVar("_Item")
NO_TAGS = b"\x00"
_VARINT_BYTES_MAX = 5


def int8(value: int) -> bytes:
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def text(value: str) -> bytes:
    encoded = value.encode()
    return int16(len(encoded)) + encoded


def compact_text(value: str) -> bytes:
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def sized(value: bytes) -> bytes:
    return int32(len(value)) + value


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class Fields(FieldReader):
    """Those of one answer."""

    __slots__ = ()

    def int8(self) -> int:
        return int.from_bytes(self.take(1), signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), signed=True)

    def varint(self) -> int:
        value = 0
        for place in range(_VARINT_BYTES_MAX):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << (7 * place)
            if not byte & 0x80:
                return value
        raise WireError("a number is too long")

    def text(self) -> str:
        """Empty where it is null."""
        return _decoded(self.take(max(0, self.int16())))

    def compact_text(self) -> str:
        """Empty where it is null."""
        return _decoded(self.take(max(0, self.varint() - 1)))

    def sized(self) -> bytes:
        return self.take(max(0, self.int32()))

    def topic_id(self) -> str:
        """As the client of Kafka spells it."""
        return base64.b64encode(self.take(16)).decode().rstrip("=")

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def items(self, item: Callable[[], _Item]) -> list[_Item]:
        return self._repeated(self.int32(), item)

    def compact_items(self, item: Callable[[], _Item]) -> list[_Item]:
        return self._repeated(self.varint() - 1, item)

    def _repeated(self, number: int, item: Callable[[], _Item]) -> list[_Item]:
        # Each takes a byte at least.
        if number > len(self.body) - self.at:
            raise WireError("a message is cut off")
        return [item() for _ in range(number)]


def _decoded(encoded: bytes) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        raise WireError("a text is not UTF-8") from None
