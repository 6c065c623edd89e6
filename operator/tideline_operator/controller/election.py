"""Leader election: a Lease that the leader renews, and that others take when it stops renewing.

1. Read the Lease; create it if it is missing. Creating and replacing are conditional, so one wins.
2. Held by another: wait. It counts as expired when it has not changed for its duration, by our own
   clock from when we saw it change. Clocks of different machines are never compared.
3. Held by us: one thread renews it well before it ends, another watches the first. A term lasts
   `RENEW_DEADLINE_S` from the moment the last renewal that was confirmed was *sent*; a renewal that
   hangs does not prolong it. Others wait `LEASE_S` from when they saw that renewal, which is later.
4. A term that ended is never resumed. Every write of the controller calls `check_term` first
   (`KubeApi.before_write`), so a process that was stopped or starved for longer than its term
   writes nothing when it continues.
5. On a clean shutdown the Lease is renewed until the turns under way have ended, and then released,
   so that another takes over at once.

The check cannot call back a request that is on the wire when the term ends. For the API server that
is safe: an operation is recorded by compare-and-swap before it starts, and a Job is named after its
operation. Requests that write to stores, or delete there, have a deadline, and are only sent while
that much is left before another process may lead (`check_store_write`).
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline_operator.api_objects import LEASES, Created, LeadershipLostError, Manifest, Replaced
from tideline_operator.kube import KubeApi

LEASE_S = 15
RENEW_DEADLINE_S = 10.0
RETRY_S = 2.0
_WATCH_S = 0.1

_log = logging.getLogger(__name__)


class Election:
    """Contends for a Lease. `identity` names this contender."""

    def __init__(
        self,
        api: KubeApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        lease_s: int = LEASE_S,
        renew_deadline_s: float = RENEW_DEADLINE_S,
        retry_s: float = RETRY_S,
        store_write_s: float = 0.0,
    ) -> None:
        """`store_write_s` is the longest that a request takes that writes to a store."""
        # Connecting and reading have this limit each, so one that hangs leaves time for another.
        self._api = api.bounded(renew_deadline_s / 4)
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._lease_s = lease_s
        self._renew_deadline_s = renew_deadline_s
        self._retry_s = retry_s
        self._store_write_s = store_write_s
        self._seen: tuple[str, float] | None = None
        self._held_lease: Manifest | None = None
        self._is_taken = False
        self._gives_up = threading.Event()
        self._stops_renewing = threading.Event()
        self._term = threading.Lock()
        self._ends_s: float | None = None
        self.heard_s = clock.monotonic_s()

    @property
    def is_leader(self) -> bool:
        """Whether our term is still running."""
        with self._term:
            return self._ends_s is not None and self._clock.monotonic_s() < self._ends_s

    def check_term(self) -> None:
        """Raises LeadershipLostError unless our term is still running: call before every write."""
        if not self.is_leader:
            raise LeadershipLostError("this process is not the leader any more: it writes nothing")

    def check_store_write(self) -> None:
        """Raises LeadershipLostError unless a request to a store that is sent now ends before
        another process may lead: call before every one that writes or deletes."""
        with self._term:
            ends_s = self._ends_s
        spare_s = self._lease_s - self._renew_deadline_s
        now_s = self._clock.monotonic_s()
        if ends_s is None or now_s >= min(ends_s, ends_s + spare_s - self._store_write_s):
            raise LeadershipLostError(
                "this process may not be the leader for much longer: it writes nothing to stores"
            )

    def wait_to_lead(self) -> bool:
        """Block until we lead; False when `stop` was called first."""
        while not self._gives_up.is_set():
            sent_s = self._clock.monotonic_s()
            if self._attempt() and self._begin_term(sent_s):
                _log.info("became the leader as %s", self._identity)
                return True
            self._gives_up.wait(self._retry_s * random.uniform(0.8, 1.2))
        return False

    def keep_leading(self, on_loss: Callable[[str], None]) -> None:
        """Renew until released. Calls `on_loss` once, with the reason, when the term has ended."""
        renewing = threading.Thread(target=self._renew_often, name="lease renewal", daemon=True)
        renewing.start()
        while not self._stops_renewing.wait(_WATCH_S):
            if not self._is_taken and self.is_leader:
                continue
            self._end_term()
            reason = (
                "another process took the lease" if self._is_taken else "could not renew the lease"
            )
            on_loss(reason)
            return

    def stop(self) -> None:
        """Stop contending. A leader stays the leader until `release`."""
        self._gives_up.set()

    def release(self) -> None:
        """Release the Lease if it is ours, so that another process can take it at once."""
        self._gives_up.set()
        self._stops_renewing.set()
        if not self.is_leader:
            return
        self._end_term()
        try:
            lease = self._api.get(LEASES, self._name, self._namespace)
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._api.replace(LEASES, lease, self._namespace)
        except TidelineError as error:
            _log.warning("cannot release the lease: %s", error)

    def _renew_often(self) -> None:
        while not self._stops_renewing.wait(self._retry_s):
            sent_s = self._clock.monotonic_s()
            is_renewed = self._attempt()
            if self._is_taken or not self._prolong_term(sent_s, is_renewed=is_renewed):
                return

    def _begin_term(self, sent_s: float) -> bool:
        """Whether there is a term: not when the answer took longer than one."""
        with self._term:
            self._ends_s = sent_s + self._renew_deadline_s
        return self.is_leader

    def _prolong_term(self, sent_s: float, *, is_renewed: bool) -> bool:
        """Whether the term is still running. A renewal confirmed after its end came too late."""
        with self._term:
            if self._ends_s is None or self._clock.monotonic_s() >= self._ends_s:
                return False
            if is_renewed:
                self._ends_s = sent_s + self._renew_deadline_s
            return True

    def _end_term(self) -> None:
        with self._term:
            self._ends_s = None

    def _attempt(self) -> bool:
        """Take or renew the Lease; whether it is ours now."""
        self._is_taken = False
        try:
            if self._renew():
                return True
            lease = self._api.get(LEASES, self._name, self._namespace)
            self.heard_s = self._clock.monotonic_s()
            if lease is None:
                return self._create()
            holder = str(lease["spec"].get("holderIdentity") or "")
            if holder not in ("", self._identity) and not self._is_dropped(lease):
                self._is_taken = True
                return False
            return self._take(lease, holder)
        except TidelineError as error:
            _log.warning("cannot reach the lease: %s", error)
            return False

    def _renew(self) -> bool:
        """Renew the Lease as we left it; False when it is not ours, or was changed since."""
        lease, self._held_lease = self._held_lease, None
        return lease is not None and self._take(lease, self._identity)

    def _create(self) -> bool:
        metadata = {"name": self._name, "namespace": self._namespace}
        now = _moment()
        spec = self._held(acquired=now, transitions=0)
        manifest = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec,
        }
        made = self._api.create(LEASES, manifest, self._namespace)
        if isinstance(made, Created):
            self._held_lease = made.object
        return isinstance(made, Created)

    def _take(self, lease: Manifest, holder: str) -> bool:
        spec = lease["spec"]
        is_ours = holder == self._identity
        acquired = spec.get("acquireTime") if is_ours else _moment()
        transitions = int(spec.get("leaseTransitions") or 0) + (0 if is_ours else 1)
        lease["spec"] = self._held(acquired=acquired, transitions=transitions)
        made = self._api.replace(LEASES, lease, self._namespace)
        if isinstance(made, Replaced):
            self.heard_s = self._clock.monotonic_s()
            self._held_lease = made.object
        return isinstance(made, Replaced)

    def _held(self, *, acquired: object, transitions: int) -> Manifest:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_s,
            "acquireTime": acquired,
            "renewTime": _moment(),
            "leaseTransitions": transitions,
        }

    def _is_dropped(self, lease: Manifest) -> bool:
        """Whether it has been unchanged for its whole duration, by our clock."""
        version = str(lease["metadata"].get("resourceVersion"))
        now_s = self._clock.monotonic_s()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now_s)
        lasts_s = float(lease["spec"].get("leaseDurationSeconds") or self._lease_s)
        return now_s - self._seen[1] > lasts_s


def _moment() -> str:
    """Now, as a Lease writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
