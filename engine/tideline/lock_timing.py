"""How long a lease of the table lock lasts, how often it is renewed, how long others wait for it.

The three belong together: a waiting process must outlast the lease of a holder that was killed, and
a holder must be able to miss several renewals. Names and rules are Hudi's, the default lease is
shorter than Hudi's 300 s, which a writer that waits 60 s never outlasts.
Source: Hudi's StorageBasedLockConfig, HoodieLockConfig, LockManager.
"""

from __future__ import annotations

from dataclasses import dataclass

RENEWALS_PER_LEASE_MIN = 10
"""Hudi refuses a lease that is shorter than so many renewal intervals."""


@dataclass(frozen=True, slots=True)
class LockTiming:
    """Timing of one writer's table lock; on a local folder only the waiting matters.

    A writer waits `wait_s`. With `outlasts_lease` it continues waiting for a lease that is not
    being renewed any more, as that of a killed holder, until that ends; a lease that is renewed,
    and one that ends later than `lease_end_s_max` from then, is waited for no longer.
    """

    validity_s: float = 60.0
    renew_interval_s: float = 6.0
    wait_s: float = 60.0
    poll_s_max: float = 1.0
    outlasts_lease: bool = True
    lease_end_s_max: float = 330.0


DEFAULT_TIMING = LockTiming()
