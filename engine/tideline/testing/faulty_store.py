"""Any object store, with faults at chosen moments.

A write is `put`, `put_if_absent`, `put_if_match`, `delete` (each path of `delete_many` is one),
`delete_prefix`, opening a writer, and closing it; writes are counted from 1. A crash test runs an
operation once to count its writes, then once more per write, cut before or after it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import BinaryIO, NoReturn, TypeVar, cast

from tideline.errors import StorageUnavailableError
from tideline.storage.object_store import (
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    ObjectStore,
    VersionedBody,
    Written,
)
from tideline.testing.fault_counts import FaultClass, count_fault

_T = TypeVar("_T")


class SimulatedCrash(BaseException):
    """The process is gone; not an Exception, so that `except Exception` cannot clean up."""


class LostReply(Enum):
    """How a conditional write that took place looks when its reply is lost."""

    UNAVAILABLE = "unavailable"
    """The caller sees StorageUnavailableError."""
    REFUSED = "refused"
    """The client retried on its own and met its own object: AlreadyExists or Changed."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """When to fail; every number counts from 1, None and empty mean never.

    `unavailable_calls` counts all calls, reads included. With `kill_process` a crash is a SIGKILL.
    A crash counts only the writes to paths that contain `among`.
    """

    crash_before_write: int | None = None
    crash_after_write: int | None = None
    lost_reply_of_conditional_write: int | None = None
    lost_reply: LostReply = LostReply.UNAVAILABLE
    unavailable_calls: frozenset[int] = frozenset()
    kill_process: bool = False
    among: str = ""


@dataclass(frozen=True, slots=True)
class RecordedWrite:
    """One write: the method (`open_writer` and `close_writer` for streams) and the path."""

    method: str
    path: str


class FaultyStore:
    """Passes every call on to `inner`, except where `plan` says otherwise.

    `plan` may be replaced at any time; counts continue. `local_path` is None, so that no write
    bypasses the plan, unless `kernel_locks` lets the locks of a local folder through, which the
    kernel frees when the process is killed.
    """

    def __init__(
        self, inner: ObjectStore, plan: FaultPlan | None = None, *, kernel_locks: bool = False
    ) -> None:
        self.plan = plan or FaultPlan()
        self._kernel_locks = kernel_locks
        self.writes: tuple[RecordedWrite, ...] = ()
        self.calls = 0
        self.conditional_writes = 0
        self._counted = 0
        self.is_dead = False
        self._inner = inner
        self._counting = threading.RLock()
        self._abandoned: tuple[object, ...] = ()

    @property
    def uri(self) -> str:
        return self._inner.uri

    def get(self, path: str) -> bytes:
        self._call()
        return self._inner.get(path)

    def get_versioned(self, path: str) -> VersionedBody:
        self._call()
        return self._inner.get_versioned(path)

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        self._call()
        return self._inner.get_range(path, offset=offset, length=length)

    def head(self, path: str) -> ObjectInfo | None:
        self._call()
        return self._inner.head(path)

    def put(self, path: str, body: bytes) -> Written:
        return self._write("put", path, lambda: self._inner.put(path, body))

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        def create() -> Written | AlreadyExists:
            result = self._inner.put_if_absent(path, body, token=token)
            return self._reply(path, result, AlreadyExists())

        return self._write("put_if_absent", path, create)

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        def replace() -> Written | Changed:
            result = self._inner.put_if_match(path, body, version=version)
            return self._reply(path, result, Changed())

        return self._write("put_if_match", path, replace)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._call()
        return self._inner.list(prefix)

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        self._call()
        return self._inner.list_after(path)

    def list_directory(self, prefix: str = "") -> Listing:
        self._call()
        return self._inner.list_directory(prefix)

    def delete(self, path: str) -> None:
        self._write("delete", path, lambda: self._inner.delete(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        self._write("delete_prefix", prefix, lambda: self._inner.delete_prefix(prefix))

    def open_reader(self, path: str) -> BinaryIO:
        self._call()
        return self._inner.open_reader(path)

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return _FaultyUpload(self, path, self._inner.open_writer(path))

    def local_path(self, path: str) -> str | None:
        return self._inner.local_path(path) if self._kernel_locks else None

    def _call(self) -> None:
        with self._counting:
            self._require_alive()
            self.calls += 1
            if self.calls in self.plan.unavailable_calls:
                count_fault(FaultClass.UNAVAILABLE)
                raise StorageUnavailableError("Injected: storage unavailable", path=self.uri)

    def _write(self, method: str, path: str, apply: Callable[[], _T]) -> _T:
        self._call()
        with self._counting:
            self.writes = (*self.writes, RecordedWrite(method, path))
            is_counted = self.plan.among in path
            self._counted += is_counted
            number = self._counted if is_counted else None
            if number is not None and number == self.plan.crash_before_write:
                self._die(FaultClass.CRASH_BEFORE_WRITE)
        result = apply()
        if number is not None and number == self.plan.crash_after_write:
            self._die(FaultClass.CRASH_AFTER_WRITE)
        return result

    def _reply(self, path: str, result: _T, refused: _T) -> _T:
        with self._counting:
            self.conditional_writes += 1
            is_lost = self.conditional_writes == self.plan.lost_reply_of_conditional_write
        if not is_lost or not isinstance(result, Written):
            return result
        if self.plan.lost_reply is LostReply.REFUSED:
            count_fault(FaultClass.REFUSED_REPLY)
            return refused
        count_fault(FaultClass.LOST_REPLY)
        raise StorageUnavailableError("Injected: the reply was lost", path=path)

    def _require_alive(self) -> None:
        if self.is_dead:
            raise SimulatedCrash("the process is dead")

    def _die(self, fault: FaultClass) -> NoReturn:
        count_fault(fault)
        if self.plan.kill_process:
            os.kill(os.getpid(), signal.SIGKILL)
        self.is_dead = True
        raise SimulatedCrash(f"after {len(self.writes)} writes")

    def _abandon(self, upload: object) -> None:
        # Kept, because dropping a half-written stream could tidy it up.
        with self._counting:
            self._abandoned = (*self._abandoned, upload)


class _FaultyUpload:
    def __init__(
        self, store: FaultyStore, path: str, inner: AbstractContextManager[BinaryIO]
    ) -> None:
        self._store = store
        self._path = path
        self._inner = inner

    def __enter__(self) -> BinaryIO:
        self._store._abandon(self._inner)
        stream = self._store._write("open_writer", self._path, self._inner.__enter__)
        return cast(BinaryIO, _FaultyStream(self._store, stream))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._store.is_dead:
            return
        if kind is not None:
            self._inner.__exit__(kind, error, trace)
            return
        try:
            self._store._write(
                "close_writer", self._path, lambda: self._inner.__exit__(None, None, None)
            )
        except StorageUnavailableError as unavailable:
            self._inner.__exit__(type(unavailable), unavailable, None)
            raise


class _FaultyStream:
    """Refuses to write once the process is dead; everything else is the inner stream's."""

    def __init__(self, store: FaultyStore, stream: BinaryIO) -> None:
        self._store = store
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._store._require_alive()
        return self._stream.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
