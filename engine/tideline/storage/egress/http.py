"""Heads and bodies of HTTP/1.1 messages, as a proxy passes them on: read within limits, checked
strictly, and never kept.

What can be read in two ways is refused: then both sides agree where a message ends.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HEAD_BYTES_MAX = 64 * 1024
BLOCK_BYTES = 256 * 1024
_OF_A_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization",
     b"proxy-authenticate", b"te", b"upgrade")
)  # fmt: skip
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*?)[ \t]*")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?")
_DIGITS = re.compile(rb"[0-9]{1,18}")


class MessageError(Exception):
    """A message that is not passed on."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line in three parts, and the fields with names in lower case."""

    first: tuple[bytes, bytes, bytes]
    fields: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, text: bytes) -> Head:
        """Raises MessageError."""
        first, *lines = text.removesuffix(b"\r\n\r\n").split(b"\r\n")
        parts = first.split(b" ", 2)
        if len(parts) < 2 or b"\n" in first or b"\x00" in first:
            raise MessageError("the first line is not HTTP")
        return cls((parts[0], parts[1], parts[2] if len(parts) > 2 else b""), _fields(lines))

    def values(self, name: bytes) -> list[bytes]:
        return [value for known, value in self.fields if known == name]

    def is_last(self) -> bool:
        """Whether its sender closes the connection after the message."""
        return any(b"close" in value.lower() for value in self.values(b"connection"))

    @property
    def is_chunked(self) -> bool:
        return bool(self.values(b"transfer-encoding"))

    @property
    def length(self) -> int | None:
        """Bytes of the body as the head says; None where it does not. Raises MessageError."""
        codings, lengths = self.values(b"transfer-encoding"), set(self.values(b"content-length"))
        if codings and (codings != [b"chunked"] or lengths):
            raise MessageError("the length of the body is said in more than one way")
        if len(lengths) > 1 or not all(_DIGITS.fullmatch(body) for body in lengths):
            raise MessageError("the length of the body is not a number")
        return int(lengths.pop()) if lengths else None

    def passed_on(self, first: bytes, *, host: bytes | None = None, closes: bool = False) -> bytes:
        """The head for the other side, without what is about this connection."""
        named = {
            part.strip().lower()
            for value in self.values(b"connection")
            for part in value.split(b",")
        }
        left_out = _OF_A_CONNECTION | named | ({b"host"} if host is not None else set())
        lines = [first]
        if host is not None:
            lines.append(b"host: " + host)
        lines += [name + b": " + value for name, value in self.fields if name not in left_out]
        if closes:
            lines.append(b"connection: close")
        return b"\r\n".join(lines) + b"\r\n\r\n"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """None at the end of the stream. Raises MessageError."""
    try:
        return Head.of(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise MessageError("the head is not complete") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise MessageError(f"the head is longer than {HEAD_BYTES_MAX} bytes") from error


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes on their way from one stream to another; `on_bytes` is called with each block."""

    source: asyncio.StreamReader
    target: asyncio.StreamWriter
    on_bytes: Callable[[], None]

    async def body(self, head: Head, *, until_end: bool) -> None:
        """The body that a head announces; without a length that to the end of the stream, or none.
        Raises MessageError."""
        length = head.length
        if head.is_chunked:
            await self._chunks()
        elif length is not None:
            await self._exactly(length)
        elif until_end:
            await self.rest()

    async def rest(self) -> None:
        """Everything to the end of the stream."""
        while block := await self.source.read(BLOCK_BYTES):
            await self._pass(block)

    async def _exactly(self, length: int) -> None:
        while length > 0:
            block = await self.source.read(min(BLOCK_BYTES, length))
            if not block:
                raise MessageError("the body is not complete")
            length -= len(block)
            await self._pass(block)

    async def _chunks(self) -> None:
        while True:
            line = await self._line()
            found = _CHUNK.fullmatch(line[:-2])
            if found is None:
                raise MessageError("a chunk has no length")
            size = int(found[1], 16)
            await self._pass(found[1] + b"\r\n")
            if size == 0:
                break
            await self._exactly(size)
            if await self._line() != b"\r\n":
                raise MessageError("a chunk is longer than it says")
            await self._pass(b"\r\n")
        left = HEAD_BYTES_MAX
        while (line := await self._line()) != b"\r\n":
            left -= len(line)
            if left < 0:
                raise MessageError("the fields after the body are too long")
        await self._pass(b"\r\n")

    async def _line(self) -> bytes:
        try:
            return await self.source.readuntil(b"\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise MessageError("the body is not complete") from error

    async def _pass(self, block: bytes) -> None:
        self.on_bytes()
        self.target.write(block)
        await self.target.drain()


def _fields(lines: list[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    def parsed() -> Iterator[tuple[bytes, bytes]]:
        for line in lines:
            found = _FIELD.fullmatch(line)
            if found is None:
                raise MessageError("a field of the head is not HTTP")
            yield found[1].lower(), found[2]

    return tuple(parsed())
