"""Frames on a socket: a kind of one byte, a length, and so many bytes. Neither side is trusted with
a length: what is longer than the receiver takes ends the connection before it is read."""

from __future__ import annotations

import socket
import struct
import time
from enum import Enum

from tideline.wording import size_text

_HEADER = struct.Struct("!cI")
_CHUNK_BYTES = 1024 * 1024


class FrameKind(Enum):
    """What a frame is.

    OPEN, KILL and EXIT go to the supervisor, which says STARTED. HELLO, RESULT, FAILURE,
    OUT_OF_MEMORY and the questions REFUSAL, NOTE, MAY_WRITE and TOKEN come from a reading process,
    which gets CALL and ANSWER.
    """

    OPEN = b"O"
    KILL = b"K"
    EXIT = b"W"
    STARTED = b"S"
    CALL = b"C"
    HELLO = b"H"
    RESULT = b"R"
    FAILURE = b"F"
    OUT_OF_MEMORY = b"M"
    REFUSAL = b"r"
    NOTE = b"n"
    MAY_WRITE = b"w"
    TOKEN = b"t"
    ANSWER = b"A"


class ClosedError(Exception):
    """The other side has closed the connection, or ended."""


class FrameError(Exception):
    """The other side sends what it must not."""


class OverdueError(Exception):
    """The deadline has passed."""


class Channel:
    """Frames over one connected socket, until `until_s` of the monotonic clock, None for ever."""

    def __init__(self, connection: socket.socket, until_s: float | None = None) -> None:
        self._connection = connection
        self.until_s = until_s

    def send(self, kind: FrameKind, body: bytes = b"") -> None:
        """Raises ClosedError and OverdueError."""
        self._set_timeout()
        try:
            self._connection.sendall(_HEADER.pack(kind.value, len(body)) + body)
        except TimeoutError:
            raise OverdueError("the other side does not read") from None
        except OSError as error:
            raise ClosedError(str(error)) from None

    def receive(self, bytes_max: int) -> tuple[FrameKind, bytes]:
        """The next frame. Raises what `receive_header` raises."""
        kind, length = self.receive_header(bytes_max)
        return kind, self.receive_body(length)

    def receive_header(self, bytes_max: int) -> tuple[FrameKind, int]:
        """Kind and length of the next frame, whose body follows. Raises ClosedError, OverdueError,
        and FrameError for one that is longer than `bytes_max` or of no known kind."""
        code, length = _HEADER.unpack(self._exactly(_HEADER.size))
        try:
            kind = FrameKind(code)
        except ValueError:
            raise FrameError(f"a frame of an unknown kind: {code!r}") from None
        if length > bytes_max:
            raise FrameError(
                f"a frame of {size_text(length)}, where {size_text(bytes_max)} are allowed"
            )
        return kind, length

    def receive_body(self, length: int, within_s: float | None = None) -> bytes:
        """The body of a frame, within a shorter time if one is given. Raises ClosedError and
        OverdueError."""
        until_s = self.until_s
        if within_s is not None:
            soon_s = time.monotonic() + within_s
            self.until_s = soon_s if until_s is None else min(until_s, soon_s)
        try:
            return self._exactly(length)
        finally:
            self.until_s = until_s

    def close(self) -> None:
        """Close the socket; the other side's next frame fails."""
        self._connection.close()

    def _exactly(self, length: int) -> bytes:
        body = bytearray()
        while len(body) < length:
            self._set_timeout()
            try:
                chunk = self._connection.recv(min(_CHUNK_BYTES, length - len(body)))
            except TimeoutError:
                raise OverdueError("the other side sends nothing") from None
            except OSError as error:
                raise ClosedError(str(error)) from None
            if not chunk:
                raise ClosedError("the connection was closed")
            body += chunk
        return bytes(body)

    def _set_timeout(self) -> None:
        if self.until_s is None:
            self._connection.settimeout(None)
            return
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            raise OverdueError("the deadline has passed")
        self._connection.settimeout(left_s)
