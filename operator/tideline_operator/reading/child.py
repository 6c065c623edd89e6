"""A process that reads the tables of one namespace: the supervisor forks it, and it serves calls.

Each call comes as a connection, and has a thread. What it needs to know about endpoints, the right
to write and tokens it asks back over the connection: the controller answers while it waits. It has
no environment but limits, no API token, no file of the controller's; keys are those of the call.

Memory beyond the limit is a MemoryError, or ends the process: then the calls under way fail, and
the controller finds out which of them was too much.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import NoReturn

from tideline.clock import Clock
from tideline.errors import StorageUnavailableError, TidelineError
from tideline.storage.remote.identity import IdentityError
from tideline.storage.request_gate import RequestGate
from tideline_operator.reading.access import Access, ConnectionPool, SourceAccess
from tideline_operator.reading.calls import (
    ANSWERS,
    CATALOG_GATE,
    SOURCE_GATE,
    STORE_GATE,
    Failure,
    Handed,
    ReadingFailedError,
    perform,
)
from tideline_operator.reading.codec import CodecError, from_bytes, to_bytes
from tideline_operator.reading.frames import Channel, ClosedError, FrameError, FrameKind
from tideline_operator.reading.reader import Reader
from tideline_operator.reading.table_reading import TableReading

CALL_BYTES_MAX = 64 * 1024 * 1024
"""Of a call: a spec, a status and keys, of the controller, which is trusted."""
_ANSWER_BYTES_MAX = 1024 * 1024
OUT_OF_MEMORY_CODE = 70
_STACK_BYTES = 1024 * 1024


def serve_calls(control: socket.socket, clock: Clock, *, is_single: bool) -> NoReturn:
    """Serve the calls whose connections come over `control`, until it is closed.

    A byte goes back at the end of each. With `is_single` the process ends after the first.
    """
    threading.stack_size(_STACK_BYTES)
    reader, pool = TableReading(clock), ConnectionPool()
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            os._exit(0)
        connection = socket.socket(fileno=descriptors[0])
        arguments = (connection, control, reader, pool, is_single)
        threading.Thread(target=_serve, args=arguments, daemon=True).start()


def _serve(
    connection: socket.socket,
    control: socket.socket,
    reader: Reader,
    pool: ConnectionPool,
    is_single: bool,
) -> None:
    channel = Channel(connection)
    try:
        with suppress(ClosedError, FrameError):
            serve_call(channel, reader, pool)
    except MemoryError:
        with suppress(BaseException):
            channel.send(FrameKind.OUT_OF_MEMORY)
        # What was being changed in memory may be half-way.
        os._exit(OUT_OF_MEMORY_CODE)
    finally:
        channel.close()
    if is_single:
        os._exit(0)
    with suppress(OSError):
        control.send(b".")


def serve_call(channel: Channel, reader: Reader, pool: ConnectionPool) -> None:
    """Serve one call. Raises ClosedError, FrameError and MemoryError."""
    channel.send(FrameKind.HELLO)
    kind, body = channel.receive(CALL_BYTES_MAX)
    if kind is not FrameKind.CALL:
        raise FrameError(f"expected a call, got {kind.name}")
    handed: Handed = from_bytes(Handed, body)
    controller = _Controller(channel)
    try:
        with ExitStack() as stack:
            access = _access(handed, controller, pool, stack)
            answer = perform(reader, access, handed.call)
        frame, body = FrameKind.RESULT, to_bytes(ANSWERS[type(handed.call)], answer)
    except TidelineError as error:
        frame, body = FrameKind.FAILURE, to_bytes(Failure, error)
    except MemoryError:
        raise
    except BaseException as error:
        # Also SystemExit: nothing that is read ends this thread.
        traceback.print_exc(file=sys.stderr)
        failed = ReadingFailedError(f"cannot be read: {type(error).__name__}: {error!s:.300}")
        frame, body = FrameKind.FAILURE, to_bytes(Failure, failed)
    channel.send(frame, body)


def _access(
    handed: Handed, controller: _Controller, pool: ConnectionPool, stack: ExitStack
) -> Access:
    given = handed.access
    connection = None
    if given.store is not None:
        gate = controller.gate(STORE_GATE, is_asked=STORE_GATE in handed.gates)
        made = pool.connection(given.store, gate, controller.token)
        connection = stack.enter_context(made)
    catalog_gate = controller.gate(CATALOG_GATE) if CATALOG_GATE in handed.gates else None
    source_gate = controller.gate(SOURCE_GATE) if SOURCE_GATE in handed.gates else None
    return Access(
        connection,
        given.catalog,
        catalog_gate,
        given.catalog_server or "",
        given.catalog_timeout_s,
        controller.check_may_write,
        given.allows_local,
        given.egress,
        SourceAccess(given.source_variables, gate=source_gate),
    )


@dataclass(slots=True)
class _Controller:
    """The controller at the other end of a call, for all threads of the call."""

    channel: Channel
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def gate(self, name: str, *, is_asked: bool = True) -> RequestGate:
        return _Gate(self, name) if is_asked else _OpenGate()

    def check_may_write(self) -> None:
        """Raises StorageUnavailableError when the controller has given the call up."""
        self.ask(FrameKind.MAY_WRITE, b"")

    def token(self) -> str:
        """Raises IdentityError with the controller's message."""
        is_given, text = from_bytes(tuple[bool, str], self.ask(FrameKind.TOKEN, b""))
        if not is_given:
            raise IdentityError(text)
        return str(text)

    def ask(self, kind: FrameKind, body: bytes) -> bytes:
        """The answer to a question. Raises StorageUnavailableError when there is none."""
        with self._lock:
            self._send(kind, body)
            try:
                kind, answer = self.channel.receive(_ANSWER_BYTES_MAX)
            except (ClosedError, FrameError) as error:
                raise StorageUnavailableError(f"the call was given up: {error}") from None
        if kind is not FrameKind.ANSWER:
            raise StorageUnavailableError(f"the controller answers with {kind.name}")
        return answer

    def tell(self, kind: FrameKind, body: bytes) -> None:
        with self._lock:
            self._send(kind, body)

    def _send(self, kind: FrameKind, body: bytes) -> None:
        try:
            self.channel.send(kind, body)
        except ClosedError as error:
            raise StorageUnavailableError(f"the call was given up: {error}") from None


@dataclass(frozen=True, slots=True)
class _Gate:
    """A gate that the controller keeps."""

    controller: _Controller
    name: str

    def refusal(self, server: str, *, writes: bool) -> str | None:
        question = to_bytes(tuple[str, str, bool], (self.name, server, writes))
        answer = self.controller.ask(FrameKind.REFUSAL, question)
        try:
            reason: str | None = from_bytes(str | None, answer)
        except CodecError as error:
            raise StorageUnavailableError(f"the controller's answer: {error}") from None
        return reason

    def note(self, server: str, problem: str | None) -> None:
        told = (self.name, server, problem)
        self.controller.tell(FrameKind.NOTE, to_bytes(tuple[str, str, str | None], told))


@dataclass(frozen=True, slots=True)
class _OpenGate:
    """Where nothing is to be asked."""

    def refusal(self, server: str, *, writes: bool) -> str | None:
        del server, writes
        return None

    def note(self, server: str, problem: str | None) -> None:
        del server, problem
