"""Having tables read by processes of their own: the controller's side of a call.

A call has a deadline. While it waits, the thread of the turn answers what the reading process asks:
whether an endpoint is left alone, whether this controller may still write, and for tokens. A
process that takes too long, sends what it must not, or ends, is ended; what happens to the table is
said in set_aside.py. What a process sends is checked by type, and its texts are masked.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.iceberg.table.found_table import FoundTable
from tideline.ingest.location import Location
from tideline.ingest.sources.postgres.shared_slot import SlotLook
from tideline.secret_values import masked
from tideline.storage.probe.report import StoreReport
from tideline_operator.decide.observed import Observed, Problem
from tideline_operator.observe.problems import problem_of
from tideline_operator.reading.access import Access, HandedAccess
from tideline_operator.reading.calls import (
    ANSWERS,
    CATALOG_GATE,
    SOURCE_GATE,
    STORE_GATE,
    AdvanceSlot,
    Call,
    CheckDeletion,
    CheckList,
    CheckStore,
    Failure,
    Forget,
    Handed,
    ListPlace,
    LookAtSlot,
    MayWrite,
    Observe,
    ProbeStore,
    ReaderUnavailableError,
    ReadingFailedError,
    Remove,
)
from tideline_operator.reading.codec import CodecError, from_bytes, to_bytes
from tideline_operator.reading.deleted_table import DeletionCheck, Removal, RemovalStep
from tideline_operator.reading.frames import (
    Channel,
    ClosedError,
    FrameError,
    FrameKind,
    OverdueError,
)
from tideline_operator.reading.questions import QUESTION_BYTES_MAX, Questions, shown
from tideline_operator.reading.set_aside import SetAside, Subject
from tideline_operator.reading.starting import OwnSupervisor
from tideline_operator.reading.supervisor import Open
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

DEADLINE_S = 120.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
ALONE_MAX = 4
"""Processes for one table each, that a namespace has at the same time."""
_LARGE_BYTES = 1024 * 1024
_LARGE_S = 10.0
"""A large answer is there when it is sent, and waits for nobody."""
_LARGE_AT_ONCE = 2
"""Of different namespaces: one whose large answer comes slowly holds up no other."""
_HELLO_S = 30.0
_CONNECT_S = 5.0
_FORGET_S = 2.0
_START_S = 20.0
_RESTART_S = 5.0
"""Of a container, which is started again when it ends."""
_REMOVAL_DEADLINES = 5
"""A step of a deletion lists the whole table before anything is deleted."""
_BUSY_S = 2.0
_STEP_S = 0.05


class _EndedError(Exception):
    """The process ended, or was ended, over a call: how. `is_slow` when that took too long."""

    def __init__(self, how: str, *, is_slow: bool = False) -> None:
        super().__init__(how)
        self.is_slow = is_slow


class ReaderProcesses:
    """See `Reader`. The supervisor is at `socket_path`, or is started by this process, for which
    `environment` has its settings."""

    def __init__(
        self,
        clock: Clock,
        environment: Mapping[str, str],
        *,
        socket_path: Path | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Raises ConfigError for a wrong setting."""
        self._own = OwnSupervisor(environment) if socket_path is None else None
        self._path = socket_path if self._own is None else self._own.path
        self._deadline_s = deadline_s
        self.set_aside = SetAside(clock)
        self._numbers = itertools.count(1)
        self._large = threading.Condition()
        self._large_of: set[str] = set()
        self._free = threading.Condition()
        self._alone: Counter[str] = Counter()

    @property
    def supervisor_pid(self) -> int | None:
        """Of the supervisor that this process has started."""
        return None if self._own is None else self._own.pid

    def stop(self) -> None:
        """End what this process has started."""
        if self._own is not None:
            self._own.stop()

    def observe(
        self,
        access: Access,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        """See `Reader.observe`."""
        if table.spec.suspend:
            return Observed(running=running)
        try:
            observed: Observed = self._ask(_table(table), access, Observe(table, status, running))
        except (ReadingFailedError, ReaderUnavailableError) as error:
            return Observed(running=running, problem=problem_of(error))
        return _cleaned(observed)

    def forget(self, table: ResolvedTable) -> None:
        """See `Reader.forget`."""
        self.set_aside.clear(_table(table))
        self.set_aside.clear(_claim(table))
        namespace = table.resource.metadata.namespace
        with suppress(_EndedError, ReaderUnavailableError, TidelineError):
            self._attempt(Open(namespace, must_run=True), Access(), Forget(table), _FORGET_S)

    def list_place(self, access: Access, place: ResolvedTable) -> tuple[FoundTable, ...]:
        """See `Reader.list_place`."""
        metadata = place.resource.metadata
        subject = "catalog", metadata.namespace, metadata.name
        found: tuple[FoundTable, ...] = self._ask(subject, access, ListPlace(place))
        return tuple(
            FoundTable(found_table.parts, shown(found_table.obstacle)) for found_table in found
        )

    def look_at_slot(self, access: Access, place: ResolvedTable) -> SlotLook:
        """See `Reader.look_at_slot`."""
        found: SlotLook = self._ask(_source(place), access, LookAtSlot(place))
        return replace(
            found,
            tables=tuple(replace(table, obstacle=shown(table.obstacle)) for table in found.tables),
        )

    def advance_slot(self, access: Access, place: ResolvedTable, lsn: int) -> bool:
        """See `Reader.advance_slot`."""
        return bool(self._ask(_source(place), access, AdvanceSlot(place, lsn)))

    def probe(self, access: Access, table: ResolvedTable, place: Location) -> None:
        """See `Reader.probe`."""
        self._ask(_bucket(table, place), access, ProbeStore(table, place))

    def check_store(self, access: Access, table: ResolvedTable, place: Location) -> StoreReport:
        """See `Reader.check_store`."""
        report: StoreReport = self._ask(_bucket(table, place), access, CheckStore(table, place))
        return report

    def may_write(self, access: Access, table: ResolvedTable, place: Location, uid: str) -> bool:
        """See `Reader.may_write`.

        In a process that has read nothing else: the answer keeps other namespaces away, and what a
        table or a catalog has made of its namespace's process must have no part in it.
        """
        call = MayWrite(table, place, uid)
        answer: bool = self._ask(_claim(table), access, call, is_alone=True)
        return answer

    def check_list(self, access: Access, table: ResolvedTable, place: Location) -> None:
        """See `Reader.check_list`."""
        self._ask(_table(table), access, CheckList(table, place))

    def check_deletion(
        self, access: Access, table: ResolvedTable, status: LakeTableStatus
    ) -> DeletionCheck:
        """See `Reader.check_deletion`."""
        checked: DeletionCheck = self._ask(_table(table), access, CheckDeletion(table, status))
        objection = checked.objection
        return replace(checked, objection=None if objection is None else shown(objection))

    def remove(self, access: Access, table: ResolvedTable, removal: Removal) -> RemovalStep:
        """See `Reader.remove`."""
        deadline_s = _REMOVAL_DEADLINES * self._deadline_s
        call = Remove(table, removal)
        step: RemovalStep = self._ask(_table(table), access, call, deadline_s)
        return step

    def wait(self, timeout_s: float) -> bool:
        """Wait until a supervisor answers; whether one does."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            try:
                self._connected(until_s).close()
                return True
            except ReaderUnavailableError:
                continue
        return False

    def _ask(
        self,
        subject: Subject,
        access: Access,
        call: Call,
        deadline_s: float | None = None,
        *,
        is_alone: bool = False,
    ) -> Any:
        """The answer to a call about a subject; one that `is_alone` has a process of its own, and
        waits for its place.

        Raises ReadingFailedError for one that is set aside, ReaderUnavailableError where a retry
        may help, and the errors of the call.
        """
        declared, namespace = call.table.resource, call.table.resource.metadata.namespace
        deadline_s = deadline_s or self._deadline_s
        refusal = self.set_aside.refusal(subject, declared)
        if refusal is not None:
            raise ReadingFailedError(refusal)
        if not is_alone and not self.set_aside.is_alone(subject):
            try:
                return self._attempt(Open(namespace), access, call, deadline_s)
            except _EndedError as ended:
                self.set_aside.suspect(subject, declared)
                if ended.is_slow:
                    raise ReaderUnavailableError(
                        f"{ended}; it is read again soon, in a process of its own"
                    ) from None
        with self._free:
            wait_s = deadline_s if is_alone else 0.0
            if not self._free.wait_for(lambda: self._alone[namespace] < ALONE_MAX, wait_s):
                raise ReaderUnavailableError(
                    f"{ALONE_MAX} tables of namespace {namespace} are being read alone, after the "
                    "process that read them ended: this one is read after them"
                )
            self._alone[namespace] += 1
        try:
            return self._ask_alone(subject, declared, access, call, deadline_s)
        finally:
            with self._free:
                self._alone[namespace] -= 1
                self._free.notify_all()

    def _ask_alone(
        self,
        subject: Subject,
        declared: LakeTable,
        access: Access,
        call: Call,
        deadline_s: float,
    ) -> Any:
        process = f"{declared.metadata.namespace}#{next(self._numbers)}"
        try:
            answer = self._attempt(Open(process, is_single=True), access, call, deadline_s)
        except _EndedError as ended:
            words = (
                f"it cannot be read within limits: {ended}. Other tables are not concerned. Make "
                "its metadata smaller, or raise reader.memoryPerNamespace or reader.deadline of "
                "the chart"
            )
            self.set_aside.set_aside(subject, declared, words)
            raise ReadingFailedError(self.set_aside.refusal(subject, declared) or words) from None
        except ReaderUnavailableError:
            raise
        except TidelineError:
            self.set_aside.clear(subject)
            raise
        self.set_aside.clear(subject)
        return answer

    def _attempt(self, opened: Open, access: Access, call: Call, deadline_s: float) -> Any:
        """The answer to a call, in the process that is to be `opened`.

        Raises _EndedError when the process ends over it, ReaderUnavailableError when there is none,
        and the errors of the call.
        """
        channel, number = self._open(opened, time.monotonic() + deadline_s)
        # One for a single call ends after it; if it does not, it would keep its place for ever.
        is_killed = opened.is_single
        try:
            channel.send(FrameKind.CALL, to_bytes(Handed, _handed(access, call)))
            return self._converse(channel, access, call)
        except ClosedError:
            raise _EndedError(f"its process ended: {self._how_it_ended(number)}") from None
        except OverdueError:
            is_killed = True
            how = f"it took more than {deadline_s:.0f} s"
            raise _EndedError(how, is_slow=True) from None
        except (FrameError, CodecError) as error:
            is_killed = True
            raise _EndedError(f"its process sent what it must not: {error!s:.200}") from None
        finally:
            channel.close()
            if is_killed:
                self._supervisor_does(FrameKind.KILL, number)

    def _open(self, opened: Open, until_s: float) -> tuple[Channel, str]:
        """A connection to a process, and the number of the process."""
        hello_s = min(until_s, time.monotonic() + _HELLO_S)
        busy_until_s = time.monotonic() + _BUSY_S
        while True:
            channel = self._connected(hello_s)
            number = ""
            try:
                channel.send(FrameKind.OPEN, to_bytes(Open, opened))
                number = from_bytes(str, _expected(channel, FrameKind.STARTED, 4096))
                _expected(channel, FrameKind.HELLO, 0)
            except ClosedError:
                # It ended at this moment, or the end of a call that makes room is not known yet.
                channel.close()
                if opened.must_run or time.monotonic() > busy_until_s:
                    raise ReaderUnavailableError(
                        "the reader starts no process: as many as there may be are at work"
                    ) from None
                time.sleep(_STEP_S)
                continue
            except (OverdueError, FrameError, CodecError) as error:
                channel.close()
                if number:
                    self._supervisor_does(FrameKind.KILL, number)
                raise ReaderUnavailableError(f"the reader does not answer: {error}") from None
            channel.until_s = until_s
            return channel, number

    def _connected(self, until_s: float) -> Channel:
        """A connection to the supervisor; one that has just been started is waited for."""
        start_s = _START_S if self._own is not None else _RESTART_S
        start_until_s = min(until_s, time.monotonic() + start_s)
        while True:
            is_starting = self._own is None or self._own.ensure()
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(_CONNECT_S)
            try:
                connection.connect(str(self._path))
                return Channel(connection, until_s)
            except OSError as error:
                connection.close()
                if not is_starting or time.monotonic() > start_until_s:
                    raise ReaderUnavailableError(
                        f"nothing that reads tables answers at {self._path} "
                        f"({error.strerror or error}): is the container `reader` running?"
                    ) from None
            time.sleep(_STEP_S)

    def _converse(self, channel: Channel, access: Access, call: Call) -> Any:
        """Answer questions until there is an answer."""
        questions = Questions(access)
        while True:
            kind, length = channel.receive_header(ANSWER_BYTES_MAX)
            if kind is FrameKind.RESULT:
                namespace = call.table.resource.metadata.namespace
                return self._answer(channel, length, ANSWERS[type(call)], namespace)
            if kind is FrameKind.FAILURE and length <= _LARGE_BYTES:
                raise _masked_error(from_bytes(Failure, channel.receive_body(length)))
            if kind is FrameKind.OUT_OF_MEMORY:
                raise _EndedError("it took more memory than one namespace's reader may")
            if length > QUESTION_BYTES_MAX:
                raise FrameError(f"a question of {length:,} bytes")
            answer = questions.answer(kind, channel.receive_body(length))
            if answer is not None:
                channel.send(FrameKind.ANSWER, answer)

    def _answer(self, channel: Channel, length: int, kind: Any, namespace: str) -> Any:
        if length <= _LARGE_BYTES:
            return from_bytes(kind, channel.receive_body(length))
        with self._large_answer(namespace, channel.until_s):
            return from_bytes(kind, channel.receive_body(length, _LARGE_S))

    @contextmanager
    def _large_answer(self, namespace: str, until_s: float | None) -> Iterator[None]:
        """Within, a large answer of the namespace is taken. Raises ReaderUnavailableError when
        others took all the time."""

        def is_free() -> bool:
            return namespace not in self._large_of and len(self._large_of) < _LARGE_AT_ONCE

        left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
        with self._large:
            if not self._large.wait_for(is_free, left_s):
                raise ReaderUnavailableError("large answers about other tables are being taken")
            self._large_of.add(namespace)
        try:
            yield
        finally:
            with self._large:
                self._large_of.discard(namespace)
                self._large.notify_all()

    def _how_it_ended(self, number: str) -> str:
        """How a process ended that has closed its connection."""
        answer = self._supervisor_does(FrameKind.EXIT, number)
        try:
            return masked(str(from_bytes(str, answer)))[:200] if answer else "it is not known how"
        except CodecError:
            return "it is not known how"

    def _supervisor_does(self, kind: FrameKind, number: str) -> bytes:
        """Ask the supervisor; empty when it does not answer."""
        try:
            channel = self._connected(time.monotonic() + _CONNECT_S)
        except ReaderUnavailableError:
            return b""
        try:
            channel.send(kind, to_bytes(str, number))
            return _expected(channel, FrameKind.ANSWER, 4096)
        except (ClosedError, OverdueError, FrameError):
            return b""
        finally:
            channel.close()


def _handed(access: Access, call: Call) -> Handed:
    gates = []
    if access.connection is not None and access.connection.gate is not None:
        gates.append(STORE_GATE)
    if access.catalog_gate is not None:
        gates.append(CATALOG_GATE)
    if access.sources.gate is not None:
        gates.append(SOURCE_GATE)
    return Handed(call, HandedAccess.of(access), tuple(gates))


def _expected(channel: Channel, expected: FrameKind, bytes_max: int) -> bytes:
    kind, body = channel.receive(bytes_max)
    if kind is not expected:
        raise FrameError(f"a frame {kind.name} came in place of {expected.name}")
    return body


def _table(table: ResolvedTable) -> Subject:
    metadata = table.resource.metadata
    return "table", metadata.namespace, metadata.name


def _claim(table: ResolvedTable) -> Subject:
    metadata = table.resource.metadata
    return "claim", metadata.namespace, metadata.name


def _bucket(table: ResolvedTable, place: Location) -> Subject:
    return "bucket", table.resource.metadata.namespace, place.uri


def _cleaned(observed: Observed) -> Observed:
    """A look with its problems masked, as the errors of this process are when they are made."""
    sources = {
        name: replace(seen, problem=_cleaned_problem(seen.problem))
        for name, seen in observed.sources.items()
    }
    return replace(observed, sources=sources, problem=_cleaned_problem(observed.problem))


def _cleaned_problem(problem: Problem | None) -> Problem | None:
    return None if problem is None else replace(problem, message=shown(problem.message))


def _masked_error(error: TidelineError) -> TidelineError:
    named = (error.table, error.instant, error.path, error.value)
    table, instant, path, value = (None if entry is None else shown(str(entry)) for entry in named)
    return type(error)(shown(error.message), table=table, instant=instant, path=path, value=value)


def _source(place: ResolvedTable) -> Subject:
    metadata = place.resource.metadata
    return "source", metadata.namespace, metadata.name
