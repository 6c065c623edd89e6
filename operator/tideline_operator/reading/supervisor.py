"""The process that starts and ends reading processes: one for each namespace, when there is a call.

It is a single thread that has used no store, so that it may fork: a reading process shares its
loaded code, and starts in milliseconds. It hands each connection of the controller to the process
that the controller names, ends those that the controller names, that have been idle, or that take
most where memory runs out, and keeps how the last ones ended. It reads nothing of a call.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from tideline.clock import SystemClock
from tideline_operator.reading.calls import ANSWERS, Failure, Handed
from tideline_operator.reading.child import OUT_OF_MEMORY_CODE, serve_calls
from tideline_operator.reading.codec import CodecError, from_bytes, prepare, to_bytes
from tideline_operator.reading.confinement import confine
from tideline_operator.reading.frames import (
    Channel,
    ClosedError,
    FrameError,
    FrameKind,
    OverdueError,
)
from tideline_operator.reading.landlock import landlock_version

REQUEST_BYTES_MAX = 4096
IDLE_S = 300.0
_REQUEST_S = 2.0
_STEP_S = 0.5
_QUIET_S = 3.0
_EXITS_KEPT = 500
_END_STEPS, _END_STEP_S = 20, 0.001
_SHARE_OF_ALL = 0.85
"""Of the memory of all, before the largest is ended: at the limit the kernel would end them all."""
_LOADED = (
    "tideline_operator.reading.table_reading",
    "tideline.iceberg.table.catalog_search",
    "tideline.iceberg.table.catalog_table",
    "pyiceberg.catalog.rest",
)
_PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Open:
    """Hand the connection to a process; start it unless it must be running. One that `is_single`
    ends after one call."""

    process: str
    is_single: bool = False
    must_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLimits:
    """`memory_bytes` is that of one process beyond the shared code, `memory_bytes_total` that of
    all; None means no limit. `client_uid` is the only user who may ask, where it is given."""

    memory_bytes: int | None = None
    memory_bytes_total: int | None = None
    processes_max: int = 64
    idle_s: float = IDLE_S
    client_uid: int | None = None


@dataclass(slots=True)
class _Child:
    """One reading process; its `number` is given to no other. `calls` have been handed to it and
    have not ended, as far as it says."""

    name: str
    number: str
    pid: int
    control: socket.socket
    used_s: float
    calls: int = 0


class Supervisor:
    """See the module. `run` until `lifeline` is closed, where there is one, or until a signal, once
    nothing has been asked for a moment."""

    def __init__(self, path: Path, limits: ReaderLimits, lifeline: int | None = None) -> None:
        self._limits = limits
        self._lifeline = lifeline
        self._children: dict[str, _Child] = {}
        self._exits: OrderedDict[str, str] = OrderedDict()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        mask = os.umask(0o117)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(mask)
        self._listener.listen(256)
        self._ending: set[int] = set()
        self._own_bytes = 0
        self._started = 0
        self._asked_s = 0.0
        self._is_ending = False

    def run(self) -> int:
        """Serve until the end."""
        self._load()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end_soon)
        self._selector.register(self._listener, selectors.EVENT_READ)
        if self._lifeline is not None:
            self._selector.register(self._lifeline, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select(_STEP_S):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj == self._lifeline:
                    return self._end()
                elif isinstance(key.data, _Child):
                    self._hear(key.data)
            if self._is_ending and self._is_quiet():
                return self._end()
            self._reap()
            self._end_idle()
            self._bound_memory()

    def _end_soon(self, *_: object) -> None:
        """A signal: it goes to all containers of a pod, and the controller completes its turns. One
        that has a lifeline ends with it, and not by a signal from a terminal."""
        self._is_ending = self._lifeline is None

    def _is_quiet(self) -> bool:
        is_idle = all(child.calls <= 0 for child in self._children.values())
        return is_idle and time.monotonic() - self._asked_s > _QUIET_S

    def _load(self) -> None:
        """Load what reading processes share."""
        for name in _LOADED:
            # Catalogs are an extra.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        prepare(Handed, Failure, *ANSWERS.values())
        gc.collect()
        gc.freeze()
        self._own_bytes = _private_bytes(os.getpid())
        if landlock_version() == 0:
            print(
                "tideline-operator: the kernel has no Landlock: a reader that runs foreign code "
                "could end others, or take the place of their socket",
                file=sys.stderr,
            )
        if len(list(Path("/proc/self/task").iterdir())) > 1:
            raise RuntimeError("there is another thread: a process that forks must have one only")

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._asked_s = time.monotonic()
        with connection:
            channel = Channel(connection, time.monotonic() + _REQUEST_S)
            if self._limits.client_uid not in (None, _peer_uid(connection)):
                return
            with contextlib.suppress(ClosedError, FrameError, OverdueError, CodecError):
                kind, body = channel.receive(REQUEST_BYTES_MAX)
                match kind:
                    case FrameKind.OPEN:
                        self._open(from_bytes(Open, body), connection, channel)
                    case FrameKind.KILL:
                        self._kill(self._numbered(from_bytes(str, body)), "a call took too long")
                        channel.send(FrameKind.ANSWER)
                    case FrameKind.EXIT:
                        # It has closed a connection without an answer: it ends, or is hostile.
                        number = from_bytes(str, body)
                        self._kill(self._numbered(number))
                        how = self._exits.get(number, "it ended")
                        channel.send(FrameKind.ANSWER, to_bytes(str, how))
                    case _:
                        pass

    def _numbered(self, number: str) -> _Child | None:
        return next((child for child in self._children.values() if child.number == number), None)

    def _open(self, asked: Open, connection: socket.socket, channel: Channel) -> None:
        child = self._children.get(asked.process)
        if child is None:
            if asked.must_run or not self._make_room():
                return
            child = self._start(asked)
        channel.send(FrameKind.STARTED, to_bytes(str, child.number))
        try:
            connection.settimeout(None)
            socket.send_fds(child.control, [b"c"], [connection.fileno()])
        except OSError:
            # It takes no more calls, or has just ended: its end is heard next.
            return
        child.calls += 1
        child.used_s = time.monotonic()

    def _start(self, asked: Open) -> _Child:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                # Tables in local folders are those of a controller on this machine.
                confine(
                    theirs.fileno(),
                    self._limits.memory_bytes,
                    writes_files=self._lifeline is not None,
                )
                serve_calls(theirs, SystemClock(), is_single=asked.is_single)
            finally:
                os._exit(1)
        theirs.close()
        ours.setblocking(False)
        self._started += 1
        child = _Child(asked.process, str(self._started), pid, ours, time.monotonic())
        self._children[asked.process] = child
        self._selector.register(ours, selectors.EVENT_READ, child)
        return child

    def _make_room(self) -> bool:
        """End the idle process that was used longest ago, if there are too many."""
        if len(self._children) < self._limits.processes_max:
            return True
        idle = [child for child in self._children.values() if child.calls <= 0]
        if not idle:
            return False
        self._kill(min(idle, key=lambda child: child.used_s), "it was idle")
        return True

    def _hear(self, child: _Child) -> None:
        """Calls of a process have ended, or it has."""
        try:
            ended = child.control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            ended = b""
        child.calls -= len(ended)
        child.used_s = time.monotonic()
        if not ended and self._children.get(child.name) is child:
            self._kill(child)

    def _kill(self, child: _Child | None, why: str = "") -> None:
        """End a process; without a reason why one that has closed its end."""
        if child is None:
            return
        del self._children[child.name]
        self._selector.unregister(child.control)
        child.control.close()
        if why:
            os.kill(child.pid, signal.SIGKILL)
        else:
            why = _ended(child.pid)
        self._ending.add(child.pid)
        self._reap()
        self._exits[child.number] = why
        while len(self._exits) > _EXITS_KEPT:
            self._exits.popitem(last=False)

    def _reap(self) -> None:
        """Take note of the ends of processes, without waiting for one."""
        for pid in list(self._ending):
            try:
                found, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                found = pid
            if found:
                self._ending.discard(pid)

    def _end_idle(self) -> None:
        before_s = time.monotonic() - self._limits.idle_s
        for child in list(self._children.values()):
            if child.calls <= 0 and child.used_s < before_s:
                self._kill(child, "it was idle")

    def _bound_memory(self) -> None:
        """End the process that takes most while all together take too much."""
        limit_bytes = self._limits.memory_bytes_total
        if limit_bytes is None:
            return
        used = {name: _private_bytes(child.pid) for name, child in self._children.items()}
        own = {name: max(0, size_bytes - self._own_bytes) for name, size_bytes in used.items()}
        while own and sum(own.values()) + self._own_bytes > _SHARE_OF_ALL * limit_bytes:
            largest = max(own, key=lambda name: own[name])
            del own[largest]
            self._kill(self._children[largest], "it took most of the memory of all readers")

    def _end(self) -> int:
        for child in list(self._children.values()):
            self._kill(child, "its supervisor ended")
        return 0


def _ended(pid: int) -> str:
    """How a process ended that has closed its connection; it is ended if it has not.

    Everybody waits for this thread, so it waits for no process that says it ends.
    """
    for _ in range(_END_STEPS):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return _words(os.waitstatus_to_exitcode(status))
        time.sleep(_END_STEP_S)
    os.kill(pid, signal.SIGKILL)
    return "it answered no more"


def _words(code: int) -> str:
    if code == OUT_OF_MEMORY_CODE:
        return "it took more memory than it may"
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with code {code}"


def _private_bytes(pid: int) -> int:
    """Memory of a process that is backed by no file; 0 for one that has ended."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def _peer_uid(connection: socket.socket) -> int:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(found[4:8], "little")
