"""Who claims which place: no two LakeTables share one, and none lies inside another's.

Every claim is known under its own address and under all addresses above it, so that a conflict is
found without looking at every table. Of those in conflict the one that has worked there is in the
right, then the oldest resource, then, within the second that Kubernetes tells apart, the one that
claimed it first.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tideline.ingest.operation import Place
from tideline_operator.controller.work_queue import Key


@dataclass(frozen=True, slots=True)
class Claim:
    """A table's place, and what orders it among those who want the same."""

    key: Key
    address: str
    has_worked_there: bool
    created_at: str


def address_of(place: Place) -> str:
    """Server and path, the same for all spellings of a place."""
    return f"{dict(place.options).get('endpoint', '')}|{place.uri.rstrip('/')}"


class Locations:
    """All claims. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[Key, Claim] = {}
        self._at: dict[str, set[Key]] = {}
        self._below: dict[str, set[Key]] = {}
        self._arrivals: dict[tuple[Key, str], int] = {}
        self._arrived = 0

    def claim(self, claim: Claim) -> tuple[Key | None, tuple[Key, ...]]:
        """Register a claim: who is in its way, and whom to ask again because something moved."""
        with self._lock:
            before = self._claims.get(claim.key)
            freed: tuple[Key, ...] = ()
            if before != claim:
                freed = self._drop(claim.key)
                if before is not None and before.address != claim.address:
                    del self._arrivals[claim.key, before.address]
                self._add(claim)
            rivals = self._rivals(claim)
            own = self._seniority(claim.key)
            elders = [key for key in rivals if self._seniority(key) < own]
            first = min(elders, key=self._seniority, default=None)
            juniors = tuple(rivals - set(elders)) if before != claim else ()
            return first, (*freed, *juniors)

    def release(self, key: Key) -> tuple[Key, ...]:
        """A table is gone: whom to ask again."""
        with self._lock:
            claim = self._claims.get(key)
            if claim is not None:
                del self._arrivals[key, claim.address]
            return self._drop(key)

    def _seniority(self, key: Key) -> tuple[bool, str, int]:
        claim = self._claims[key]
        return not claim.has_worked_there, claim.created_at, self._arrivals[key, claim.address]

    def _add(self, claim: Claim) -> None:
        self._claims[claim.key] = claim
        if (claim.key, claim.address) not in self._arrivals:
            self._arrived += 1
            self._arrivals[claim.key, claim.address] = self._arrived
        self._at.setdefault(claim.address, set()).add(claim.key)
        for above in _above(claim.address):
            self._below.setdefault(above, set()).add(claim.key)

    def _drop(self, key: Key) -> tuple[Key, ...]:
        claim = self._claims.pop(key, None)
        if claim is None:
            return ()
        _discard(self._at, claim.address, key)
        for above in _above(claim.address):
            _discard(self._below, above, key)
        return tuple(self._rivals(claim))

    def _rivals(self, claim: Claim) -> set[Key]:
        found = self._at.get(claim.address, set()) | self._below.get(claim.address, set())
        for above in _above(claim.address):
            found = found | self._at.get(above, set())
        return found - {claim.key}


def _above(address: str) -> list[str]:
    """The addresses in which this one lies, down to the bucket or the root folder."""
    server, _, path = address.partition("|")
    scheme, separator, rest = path.partition("://")
    parts = rest.split("/")
    return [f"{server}|{scheme}{separator}{'/'.join(parts[:end])}" for end in range(1, len(parts))]


def _discard(index: dict[str, set[Key]], address: str, key: Key) -> None:
    keys = index.get(address)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[address]
