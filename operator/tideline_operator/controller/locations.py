"""Which LakeTable claims which place: no two tables overlap, nor a table and a landing prefix.

A LakeTable claims its location and the landing prefixes of its ingests. A location is exclusive;
landing prefixes may be shared, since many tables may read one, unless files are taken away there.
Every place is indexed by its own address and by all addresses above it, so that a conflict is found
without looking at every table.

Of two places in conflict the one wins whose resource has worked there, then that of the older
resource, then, for resources created within one second, the one that was claimed first.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

from tideline_operator.controller.work_queue import Key


@dataclass(frozen=True, slots=True)
class ClaimedPlace:
    """One place of a table. `field` names it in the spec, `shown` is its name in messages. In a
    landing prefix that `is_emptied` files are moved or removed once they are ingested."""

    address: str
    field: str
    shown: str
    is_landing: bool = False
    has_worked_there: bool = False
    is_emptied: bool = False


@dataclass(frozen=True, slots=True)
class TableClaim:
    """The places of a table, and what ranks it among those that want the same."""

    key: Key
    places: tuple[ClaimedPlace, ...]
    created_at: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A place that another table holds: `own` is in conflict with `elder`, a place of `key`."""

    key: Key
    own: ClaimedPlace
    elder: ClaimedPlace


class _Held(NamedTuple):
    """A place and its owner."""

    key: Key
    place: ClaimedPlace


class Locations:
    """All claims. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[Key, TableClaim] = {}
        self._at: dict[str, set[_Held]] = {}
        self._below: dict[str, set[_Held]] = {}
        self._arrivals: dict[tuple[Key, str], int] = {}
        self._arrived = 0

    def claim(self, claim: TableClaim) -> tuple[Taken | None, tuple[Key, ...]]:
        """Register a claim: what is in its way, and the tables to look at again because of it."""
        with self._lock:
            before = self._claims.get(claim.key)
            freed: set[Key] = set()
            if before != claim:
                freed = self._drop(claim.key)
                self._forget_arrivals(claim.key, {place.address for place in claim.places})
                self._add(claim)
            elders, juniors = self._rivals(claim)
            moved = freed | juniors if before != claim else set()
            elders.sort(key=lambda taken: self._seniority(taken.key, taken.elder))
            return next(iter(elders), None), tuple(sorted(moved))

    def release(self, key: Key) -> tuple[Key, ...]:
        """A table was deleted: the tables to look at again."""
        with self._lock:
            freed = self._drop(key)
            self._forget_arrivals(key, set())
            return tuple(sorted(freed))

    def others_in(self, key: Key, address: str) -> tuple[Taken, ...]:
        """Places of other tables at or below `address`, with or without precedence."""
        with self._lock:
            held = self._at.get(address, set()) | self._below.get(address, set())
            own = ClaimedPlace(address, "", "")
            return tuple(Taken(one.key, own, one.place) for one in held if one.key != key)

    def _seniority(self, key: Key, place: ClaimedPlace) -> tuple[bool, str, int]:
        created_at = self._claims[key].created_at
        return not place.has_worked_there, created_at, self._arrivals[key, place.address]

    def _add(self, claim: TableClaim) -> None:
        self._claims[claim.key] = claim
        for place in claim.places:
            if (claim.key, place.address) not in self._arrivals:
                self._arrived += 1
                self._arrivals[claim.key, place.address] = self._arrived
            held = _Held(claim.key, place)
            self._at.setdefault(place.address, set()).add(held)
            for above in _above(place.address):
                self._below.setdefault(above, set()).add(held)

    def _drop(self, key: Key) -> set[Key]:
        """Remove a claim; the tables it was in conflict with."""
        claim = self._claims.get(key)
        if claim is None:
            return set()
        rivals = {one.key for place in claim.places for one in self._conflicts(key, place)}
        del self._claims[key]
        for place in claim.places:
            held = _Held(key, place)
            _discard(self._at, place.address, held)
            for above in _above(place.address):
                _discard(self._below, above, held)
        return rivals

    def _forget_arrivals(self, key: Key, kept: set[str]) -> None:
        for known in [known for known in self._arrivals if known[0] == key]:
            if known[1] not in kept:
                del self._arrivals[known]

    def _rivals(self, claim: TableClaim) -> tuple[list[Taken], set[Key]]:
        """The places that take precedence over `claim`, and the tables that must yield to it."""
        elders: list[Taken] = []
        juniors: set[Key] = set()
        for place in claim.places:
            own = self._seniority(claim.key, place)
            for key, other in self._conflicts(claim.key, place):
                if self._seniority(key, other) < own:
                    elders.append(Taken(key, place, other))
                else:
                    juniors.add(key)
        return elders, juniors

    def _conflicts(self, key: Key, place: ClaimedPlace) -> set[_Held]:
        """Places of others that `place` overlaps."""
        found = self._at.get(place.address, set()) | self._below.get(place.address, set())
        for above in _above(place.address):
            found = found | self._at.get(above, set())
        return {one for one in found if one.key != key and not _may_be_shared(one.place, place)}


def _may_be_shared(one: ClaimedPlace, other: ClaimedPlace) -> bool:
    both_read = one.is_landing and other.is_landing
    return both_read and not (one.is_emptied or other.is_emptied)


def _above(address: str) -> list[str]:
    """The addresses in which this one lies, down to the bucket or the root folder."""
    server, _, path = address.partition("|")
    scheme, separator, rest = path.partition("://")
    parts = rest.split("/")
    return [f"{server}|{scheme}{separator}{'/'.join(parts[:end])}" for end in range(1, len(parts))]


def _discard(index: dict[str, set[_Held]], address: str, held: _Held) -> None:
    found = index.get(address)
    if found is not None:
        found.discard(held)
        if not found:
            del index[address]
