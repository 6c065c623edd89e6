"""Who claims which place: no two LakeTables share one, and none lies inside another's.

Every claim is known under its own address and under all addresses above it, so that a conflict is
found without looking at every table. Of those in conflict the oldest resource is in the right.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tideline.ingest.operation import Place
from tideline_operator.controller.work_queue import Key


@dataclass(frozen=True, slots=True)
class Claim:
    """A table's place; `seniority` orders those who want the same."""

    key: Key
    address: str
    seniority: tuple[str, str]


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

    def claim(self, claim: Claim) -> tuple[Key | None, tuple[Key, ...]]:
        """Register a claim: who is in its way, and whom to ask again because something moved."""
        with self._lock:
            before = self._claims.get(claim.key)
            freed: tuple[Key, ...] = ()
            if before != claim:
                freed = self._drop(claim.key)
                self._add(claim)
            rivals = self._rivals(claim)
            elders = [key for key in rivals if self._claims[key].seniority < claim.seniority]
            first = min(elders, key=lambda key: self._claims[key].seniority, default=None)
            juniors = tuple(rivals - set(elders)) if before != claim else ()
            return first, (*freed, *juniors)

    def release(self, key: Key) -> tuple[Key, ...]:
        """A table is gone: whom to ask again."""
        with self._lock:
            return self._drop(key)

    def _add(self, claim: Claim) -> None:
        self._claims[claim.key] = claim
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
