"""Hudi's storage lock (RFC-91): a lease in `.hoodie/.locks/table_lock.json`.

1. The object says {"expired": bool, "validUntil": epoch ms, "owner": uuid}. It may be taken when it
   is absent, expired, or its validity ended more than 500 ms ago. The write is conditional: one
   wins.
2. The holder renews it in the background. Its own view of the remaining time counts from before the
   write, on the wall clock and on the monotonic one, and the shorter of the two holds: neither a
   clock set back nor a machine that slept makes it last longer than others believe.
3. Release rewrites it as expired. It is never deleted.
4. A process that finds it taken waits. When the time for that is over and the lease has not been
   renewed, its holder may be dead: the wait continues until the lease ends, or is seen to be
   renewed.
5. After a refused or unanswered write it is unclear who holds the lock. Acquiring never reads back
   and continues: should the lock turn out to be ours, it is released and acquiring starts again. A
   renewal does read back, and adopts its own version or gives up to a foreign owner.

What no lease can exclude: a holder that is paused inside a request outlives its lease unaware.
Check `remaining_s` right before what the lock protects.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from tideline.clock import Clock
from tideline.errors import (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TidelineError,
)
from tideline.lock_timing import DEFAULT_TIMING, LockTiming
from tideline.storage.object_store import ObjectStore, VersionedBody, Written
from tideline.storage.renewal import RenewalThread

STORAGE_LOCK_PATH = ".hoodie/.locks/table_lock.json"
DRIFT_MS_MAX = 500

_log = logging.getLogger(__name__)
_POLL_S_MIN = 0.1
_LOGGED_EVERY_S = 5.0
_FAILURES_MAX = 3
_RENEWAL_ATTEMPTS = 3


class StorageLock:
    """Hudi's storage lock (RFC-91) by conditional writes on `.hoodie/.locks/table_lock.json`."""

    def __init__(
        self, store: ObjectStore, clock: Clock, timing: LockTiming = DEFAULT_TIMING
    ) -> None:
        self._store = store
        self._clock = clock
        self._timing = timing
        self._ghosts: set[str] = set()

    def acquire(self, *, timeout_s: float | None = None) -> StorageLease:
        timeout_s = self._timing.wait_s if timeout_s is None else timeout_s
        waiting = _Waiting(self._store.uri, self._clock, self._timing, timeout_s)
        failures = 0
        poll_s = _POLL_S_MIN
        while True:
            try:
                outcome = self._try_acquire()
                failures = 0
            except StorageUnavailableError:
                failures += 1
                outcome = None
                if failures == _FAILURES_MAX or waiting.is_over(None):
                    raise
            if isinstance(outcome, StorageLease):
                return outcome
            if waiting.is_over(outcome):
                raise waiting.conflict(outcome)
            self._clock.sleep(min(poll_s, waiting.remaining_s(outcome)))
            poll_s = min(2 * poll_s, self._timing.poll_s_max)

    def _try_acquire(self) -> StorageLease | _LockBody | None:
        """One attempt: a lease, the holder, or None when another writer was first just now."""
        current = _read(self._store)
        if current is not None:
            holder = _LockBody.decode(current.body)
            if not holder.may_be_taken(self._clock.now_ms()):
                if holder.owner in self._ghosts:
                    self._release_ghost(holder, current.version)
                return holder
        # A new owner for every attempt, so that a ghost is never taken for a lease.
        owner = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4()}"
        term = _Term.starting(self._clock, self._timing.validity_s)
        body = _LockBody(owner, term.valid_until_ms).encode()
        self._ghosts.add(owner)
        result = (
            self._store.put_if_absent(STORAGE_LOCK_PATH, body)
            if current is None
            else self._store.put_if_match(STORAGE_LOCK_PATH, body, version=current.version)
        )
        if not isinstance(result, Written):
            return None
        self._ghosts.discard(owner)
        lease = StorageLease(self._store, self._clock, owner, result.version, term)
        lease.keep_renewed(self._timing.validity_s, self._timing.renew_interval_s)
        return lease

    def _release_ghost(self, ghost: _LockBody, version: str) -> None:
        result = self._store.put_if_match(
            STORAGE_LOCK_PATH, ghost.released().encode(), version=version
        )
        if isinstance(result, Written):
            self._ghosts.discard(ghost.owner)


class _Waiting:
    """How long one acquisition waits, and what it logs while waiting."""

    def __init__(self, table: str, clock: Clock, timing: LockTiming, timeout_s: float) -> None:
        self._table = table
        self._clock = clock
        self._timing = timing
        self._begun_s = clock.monotonic_s()
        self._deadline_s = self._begun_s + timeout_s
        self._waits = timeout_s > 0
        self._last_seen: _LockBody | None = None
        self._outlasted: _LockBody | None = None
        self._logged_s = self._begun_s

    def is_over(self, holder: _LockBody | None) -> bool:
        """Whether to give up, now that `holder` has the lock."""
        self._log_holder(holder)
        before, self._last_seen = self._last_seen, holder or self._last_seen
        if self._clock.monotonic_s() < self._deadline_s:
            return False
        if holder is None or not self._waits or not self._timing.outlasts_lease:
            return True
        if self._outlasted is None and before in (None, holder):
            self._outlasted = holder
        # Renewed, or taken by the next: a process is alive.
        return self._outlasted != holder or self._lease_s(holder) > self._timing.lease_end_s_max

    def remaining_s(self, holder: _LockBody | None) -> float:
        """Seconds until the next look is due at the latest."""
        remaining_s = self._deadline_s - self._clock.monotonic_s()
        if remaining_s > 0 or holder is None:
            return max(remaining_s, 0.0)
        return max(self._lease_s(holder), _POLL_S_MIN)

    def conflict(self, holder: _LockBody | None) -> ConflictError:
        waited_s = self._clock.monotonic_s() - self._begun_s
        if holder is None:
            message = "another writer took the table lock first"
        else:
            message = f"the table lock is held by {holder}"
        return ConflictError(
            f"{message}; waited {waited_s:.0f} s", table=self._table, path=STORAGE_LOCK_PATH
        )

    def _log_holder(self, holder: _LockBody | None) -> None:
        now_s = self._clock.monotonic_s()
        is_due = now_s - self._logged_s >= _LOGGED_EVERY_S
        if holder is not None and is_due:
            self._logged_s = now_s
            _log.warning("waiting for the table lock of %s, held by %s", self._table, holder)

    def _lease_s(self, holder: _LockBody) -> float:
        return (holder.valid_until_ms + DRIFT_MS_MAX + 1 - self._clock.now_ms()) / 1000


class StorageLease:
    """A storage lock that is held, and the thread that renews it."""

    def __init__(
        self, store: ObjectStore, clock: Clock, owner: str, version: str, term: _Term
    ) -> None:
        self.owner = owner
        self._store = store
        self._clock = clock
        self._version = version
        self._term = term
        self._validity_s = 0.0
        self._lost = False
        self._released = False
        self._changing = threading.Lock()
        self._renewal: RenewalThread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def keep_renewed(self, validity_s: float, interval_s: float) -> None:
        """Start renewing in the background."""
        self._validity_s = validity_s
        self._renewal = RenewalThread("tideline-table-lock", self._clock, interval_s, self.renew)
        self._renewal.start()

    def remaining_s(self) -> float:
        if self._lost or self._released:
            return 0.0
        return self._term.remaining_s(self._clock)

    def is_held(self) -> bool:
        return self.remaining_s() > 0

    def renew(self) -> bool:
        """Extend the lease; False once it is lost for good.

        When the store cannot be reached the lease lives on to the end of its present validity.
        """
        with self._changing:
            for _ in range(_RENEWAL_ATTEMPTS):
                # Over is over: others may already have acted on it.
                if not self.is_held():
                    self._lost = True
                    return False
                term = _Term.starting(self._clock, self._validity_s)
                body = _LockBody(self.owner, term.valid_until_ms).encode()
                try:
                    result = self._store.put_if_match(
                        STORAGE_LOCK_PATH, body, version=self._version
                    )
                    if isinstance(result, Written):
                        self._version, self._term = result.version, term
                        return True
                    self._lost = not self._adopt()
                except StorageUnavailableError as error:
                    _log.warning("cannot renew the table lock, will retry: %s", error)
                    return True
            return not self._lost

    def release(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
        with self._changing:
            if self._released:
                return
            self._released = True
            if self._lost:
                return
            for attempt in range(_RENEWAL_ATTEMPTS):
                try:
                    self._write_released()
                    return
                except TidelineError as error:
                    _log.warning("cannot release the table lock, it will expire: %s", error)
                    if not isinstance(error, StorageUnavailableError):
                        return
                    if attempt + 1 < _RENEWAL_ATTEMPTS:
                        self._clock.sleep(_POLL_S_MIN)

    def _write_released(self) -> None:
        body = _LockBody(self.owner, self._term.valid_until_ms).released().encode()
        for _ in range(_RENEWAL_ATTEMPTS):
            result = self._store.put_if_match(STORAGE_LOCK_PATH, body, version=self._version)
            if isinstance(result, Written) or not self._adopt():
                return

    def _adopt(self) -> bool:
        """Whether the lock is still ours; if so, continue from the version that is stored."""
        current = _read(self._store)
        if current is None:
            return False
        holder = _LockBody.decode(current.body)
        if holder.owner != self.owner or holder.expired:
            return False
        self._version = current.version
        return True


@dataclass(frozen=True, slots=True)
class _Term:
    """Until when a lease is valid, on both clocks."""

    valid_until_ms: int
    valid_until_monotonic_s: float

    @classmethod
    def starting(cls, clock: Clock, validity_s: float) -> _Term:
        return cls(clock.now_ms() + round(validity_s * 1000), clock.monotonic_s() + validity_s)

    def remaining_s(self, clock: Clock) -> float:
        wall_s = (self.valid_until_ms - clock.now_ms()) / 1000
        return max(0.0, min(wall_s, self.valid_until_monotonic_s - clock.monotonic_s()))


@dataclass(frozen=True, slots=True)
class _LockBody:
    """The JSON of RFC-91; unknown fields are ignored."""

    owner: str
    valid_until_ms: int
    expired: bool = False

    @classmethod
    def decode(cls, body: bytes) -> _LockBody:
        try:
            fields = json.loads(body)
            return cls(str(fields["owner"]), int(fields["validUntil"]), bool(fields["expired"]))
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
            raise CorruptTableError(
                "the table lock is not a storage lock of RFC-91; remove it once no writer runs",
                path=STORAGE_LOCK_PATH,
                value=body[:200],
            ) from error

    def __str__(self) -> str:
        until = datetime.fromtimestamp(self.valid_until_ms / 1000, UTC)
        return f"{self.owner} until {until:%Y-%m-%dT%H:%M:%SZ}, unless renewed"

    def encode(self) -> bytes:
        fields = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(fields, separators=(",", ":")).encode()

    def released(self) -> _LockBody:
        return _LockBody(self.owner, self.valid_until_ms, expired=True)

    def may_be_taken(self, now_ms: int) -> bool:
        return self.expired or now_ms > self.valid_until_ms + DRIFT_MS_MAX


def _read(store: ObjectStore) -> VersionedBody | None:
    try:
        return store.get_versioned(STORAGE_LOCK_PATH)
    except ObjectNotFoundError:
        return None
