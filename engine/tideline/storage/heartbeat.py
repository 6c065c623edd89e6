"""Heartbeats distinguish live writers from dead ones.

`.hoodie/.heartbeat/<instant>` is an object rewritten at an interval; its age is the time since the
store last saw it written. A writer whose heartbeat lapsed may be rolled back by any other writer,
so it must not complete its instant. On a local folder the kernel knows better than any clock
whether a writer's process is alive or gone; see `liveness`.
Source: Hudi `HoodieHeartbeatClient`, `HeartbeatUtils`.

The object holds the writer's name, or nothing: a process that knows that the writer is gone need
not wait. Before its completing request a writer takes the name back, because a request may outlive
its sender; from then on only age counts.
"""

from __future__ import annotations

import logging
import threading
from typing import Self

from tideline.clock import Clock
from tideline.errors import ObjectNotFoundError, StorageUnavailableError, TidelineError
from tideline.heartbeat_limits import DEFAULT_LIMITS, HeartbeatLimits
from tideline.storage.local.liveness import (
    KernelWord,
    WriterLock,
    ask_kernel,
    discard_writer_lock,
    list_writer_locks,
)
from tideline.storage.object_store import ObjectStore
from tideline.storage.renewal import RenewalThread

HEARTBEAT_DIRECTORY = ".hoodie/.heartbeat"

_log = logging.getLogger(__name__)


class Heartbeat:
    """Keeps `.hoodie/.heartbeat/<name>` young from `start` to `stop`, or within a `with` block.

    A renewal that fails is tolerated until the limits' `silent_s_max` has passed since the last one
    that worked; after that the heartbeat counts as expired for good.
    """

    def __init__(
        self,
        store: ObjectStore,
        name: str,
        clock: Clock,
        limits: HeartbeatLimits = DEFAULT_LIMITS,
        *,
        writer: str = "",
    ) -> None:
        self._store = store
        self._name = name
        self._writer = writer
        self._path = heartbeat_path(name)
        self._clock = clock
        self._limits = limits
        self._beaten: tuple[int, float] | None = None
        self._expired = False
        self._beating = threading.Lock()
        self._renewal: RenewalThread | None = None
        self._lock: WriterLock | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Write the heartbeat and keep renewing it.

        Raises StorageUnavailableError when it cannot.
        """
        if self._renewal is not None:
            return
        # Before the instant exists, so that no process ever finds it without its lock.
        self._lock = WriterLock.hold(self._store, self._name)
        try:
            self._beat()
        except BaseException:
            self._release_lock()
            raise
        self._renewal = RenewalThread(
            f"tideline-heartbeat {self._path}", self._clock, self._limits.interval_s, self.renew
        )
        self._renewal.start()

    def stop(self) -> None:
        """Stop renewing and remove the object; never raises because the store is away."""
        if self._stop_renewing():
            try:
                self._store.delete(self._path)
            except TidelineError as error:
                _log.warning("cannot remove the heartbeat, it will expire: %s", error)
            self._release_lock()

    def lapse(self) -> None:
        """Stop renewing but leave the object: others take this writer for dead once it is old."""
        if self._stop_renewing():
            self._release_lock()

    def renew(self) -> bool:
        """Write the heartbeat once more; False once it has expired."""
        with self._beating:
            if self.is_expired():
                self._expired = True
                return False
            try:
                self._beat()
            except StorageUnavailableError as error:
                _log.warning("cannot renew the heartbeat, will retry: %s", error)
            return True

    def withdraw_name(self) -> None:
        """From here on the writer's end says nothing about its instant.

        Raises StorageUnavailableError when the store does not take that in.
        """
        with self._beating:
            if self._writer:
                self._writer = ""
                self._beat()

    def is_expired(self) -> bool:
        """Whether others may already take this writer for dead; True before `start`, too."""
        if self._expired or self._beaten is None:
            return True
        wall_ms, monotonic_s = self._beaten
        silent_s = max(
            (self._clock.now_ms() - wall_ms) / 1000, self._clock.monotonic_s() - monotonic_s
        )
        if silent_s > self._limits.silent_s_max:
            self._expired = True
        return self._expired

    def _stop_renewing(self) -> bool:
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.stop()
        return renewal is not None

    def _release_lock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _beat(self) -> None:
        # Both clocks, from before the write: a machine that slept is noticed by one of them.
        beaten = (self._clock.now_ms(), self._clock.monotonic_s())
        self._store.put(self._path, self._writer.encode())
        self._beaten = beaten


def heartbeat_path(name: str) -> str:
    """Where the heartbeat of the instant `name` is, relative to the table."""
    return f"{HEARTBEAT_DIRECTORY}/{name}"


def heartbeat_age_ms(store: ObjectStore, name: str, clock: Clock) -> int | None:
    """How long the heartbeat has been silent by the store's time stamp; None when there is none."""
    found = store.head(heartbeat_path(name))
    return None if found is None else max(0, clock.now_ms() - found.modified_ms)


def heartbeat_writer(store: ObjectStore, name: str) -> str:
    """The name of the writer whose end would be the end of its instant; empty if there is none."""
    try:
        return store.get(heartbeat_path(name)).decode("utf-8", "replace")
    except ObjectNotFoundError:
        return ""


def is_heartbeat_dead(store: ObjectStore, name: str, clock: Clock, limits: HeartbeatLimits) -> bool:
    """Whether the writer counts as dead: gone, silent for too long, or without a heartbeat.

    The kernel's word goes before the age, which is as right as the clocks it is measured by.
    """
    word = ask_kernel(store, name)
    if word is not KernelWord.NOTHING:
        return word is KernelWord.DEAD
    age_ms = heartbeat_age_ms(store, name, clock)
    return age_ms is None or age_ms > limits.silent_s_max * 1000


def list_heartbeats(store: ObjectStore) -> frozenset[str]:
    """The names of all writers that have a heartbeat or left something of one."""
    objects = store.list_directory(HEARTBEAT_DIRECTORY).objects
    names = (info.path.rpartition("/")[2] for info in objects)
    return frozenset((*names, *list_writer_locks(store)))


def delete_heartbeat(store: ObjectStore, name: str) -> None:
    """Remove what a dead writer left of its heartbeat; fine if there is nothing."""
    store.delete(heartbeat_path(name))
    discard_writer_lock(store, name)
