"""The lock of one open table, held until the times that were given under it are past everywhere.

1. An instant time is later than all before it because a process that takes the lock next reads a
   later clock, also where clocks differ a little. Hudi's writers read theirs, then wait under the
   lock until all clocks have passed it (SkewAdjustingTimeGenerator). Here the lock is held until
   then, and what there is to do under it is done meanwhile.
2. A `with` block that is left sooner does not wait: its lease rests, and is released once the time
   is over. When the process ends in order it stays until then.
3. What the same table acquires meanwhile takes the resting lease back, and neither waits nor writes
   the lock again. After `HELD_S_MAX` others have their turn first.

A process that is killed while its lease rests leaves the lock as one that is killed under it does:
others wait until the lease ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from tideline.clock import Clock, call_later
from tideline.lock_timing import LockTiming
from tideline.storage.lock import Lease, TableLock

HELD_S_MAX = 1.0
"""How old a resting lease may be that is taken back."""


@dataclass
class HeldLock:
    """The lock of an open table, between all that acquire it through that. For any threads."""

    clock: Clock
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _held: TimedLease | None = None
    _resting: _Resting | None = None

    def of(self, lock: TableLock, timing: LockTiming) -> TableLock:
        """`lock`, whose leases rest and are taken back."""
        return _TimedLock(self, lock, timing)

    def hold_for(self, seconds: float) -> bool:
        """Have others get the lock so long from now at the earliest; False when nobody has it
        through this table."""
        with self._changing:
            if self._held is None or not self._held.is_held():
                return False
            until_s = self.clock.monotonic_s() + seconds
            self._held.until_s = max(self._held.until_s, until_s)
            return True

    def acquire(self, lock: TableLock, timing: LockTiming, timeout_s: float | None) -> TimedLease:
        """The resting lease, or else a new one."""
        found = self._taken_back(timing)
        if found is None:
            lease = lock.acquire(timeout_s=timeout_s)
            found = TimedLease(self, lease, timing, self.clock.monotonic_s())
        with self._changing:
            self._held = found
        return found

    def leave(self, lease: TimedLease) -> None:
        """Release it, now or once its time is over."""
        with self._changing:
            if lease.is_left:
                return
            lease.is_left = True
            if self._held is lease:
                self._held = None
            wait_s = lease.until_s - self.clock.monotonic_s()
            resting = _Resting(lease) if wait_s > 0 and lease.is_held() else None
            self._resting = resting
        if resting is None:
            lease.inner.release()
        else:
            resting.cancel = call_later(self.clock, wait_s, partial(self._release, resting))

    def _taken_back(self, timing: LockTiming) -> TimedLease | None:
        now_s = self.clock.monotonic_s()
        with self._changing:
            resting = self._resting
            if resting is None or resting.process_id != os.getpid():
                return None
            lease = resting.lease
            is_young = now_s - lease.acquired_s < HELD_S_MAX
            if lease.timing != timing or not is_young or not lease.is_held():
                return None
            self._resting, resting.is_over = None, True
        resting.cancel()
        return replace(lease, is_left=False)

    def _release(self, resting: _Resting) -> None:
        with self._changing:
            if resting.is_over:
                return
            resting.is_over = True
            if self._resting is resting:
                self._resting = None
        resting.lease.inner.release()


@dataclass(frozen=True, slots=True)
class _TimedLock:
    held: HeldLock
    lock: TableLock
    timing: LockTiming

    def acquire(self, *, timeout_s: float | None = None) -> TimedLease:
        return self.held.acquire(self.lock, self.timing, timeout_s)


@dataclass(eq=False)
class TimedLease:
    """A lease; `until_s`, by the monotonic clock, is when others may have the lock."""

    held: HeldLock
    inner: Lease
    timing: LockTiming
    acquired_s: float
    until_s: float = 0.0
    is_left: bool = False

    def remaining_s(self) -> float:
        return self.inner.remaining_s()

    def is_held(self) -> bool:
        return self.inner.is_held()

    def release(self) -> None:
        self.held.leave(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass
class _Resting:
    """A lease that is released later, by this process, unless it is taken back."""

    lease: TimedLease
    is_over: bool = False
    cancel: Callable[[], None] = lambda: None
    process_id: int = field(default_factory=os.getpid)
