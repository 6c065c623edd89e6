"""Which LakeTable claims which place: no two tables overlap, nor a table and a landing prefix.

A LakeTable claims its location and the landing prefixes of its ingests. A location is exclusive;
landing prefixes may be shared, since many tables may read one, unless files are taken away there.
Every place is indexed by its own address and by all addresses above it, so that a conflict is found
without looking at every table.

A claim keeps others away once the store has accepted the claimant's credentials at that place, and
only as long as it does: a resource is free to name any place, and most are not its own. Of two that
were accepted the one has the place that was accepted first. What is only read, a landing prefix or
a table of a catalog, keeps nothing of another namespace away: rights to read it are no title to it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from tideline_operator.controller.work_queue import Key


@dataclass(frozen=True, slots=True)
class ClaimedPlace:
    """One place of a table. `field` names it in the spec, `shown` is its name in messages. In a
    landing prefix that `is_emptied` files are moved or removed once they are ingested. At
    `accepted_ms` the store accepted the claimant; None: it has not yet."""

    address: str
    field: str
    shown: str
    is_landing: bool = False
    accepted_ms: int | None = None
    is_emptied: bool = False
    is_in_catalog: bool = False

    @property
    def is_only_read(self) -> bool:
        """Whether the claimant changes nothing there that its catalog would not refuse."""
        return self.is_in_catalog or (self.is_landing and not self.is_emptied)


@dataclass(frozen=True, slots=True)
class TableClaim:
    """The places of a table, and what ranks it among those that want the same."""

    key: Key
    places: tuple[ClaimedPlace, ...]
    created_at: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A place that another table holds: `own` is in conflict with `elder`, a place of `key`.
    `is_foreign` when that table is of another namespace."""

    key: Key
    own: ClaimedPlace
    elder: ClaimedPlace
    is_foreign: bool = False


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

    def accepted_ms(self, key: Key, addresses: Collection[str], now_ms: int) -> dict[str, int]:
        """Note that the store has accepted a claimant at these places of its claim: since when, by
        address. That is later than for any other that was accepted at a place in conflict."""
        with self._lock:
            claim = self._claims[key]
            since: dict[str, int] = {}
            for place in claim.places:
                if place.address not in addresses or place.accepted_ms is not None:
                    continue
                others = [conflict.place.accepted_ms for conflict in self._conflicts(key, place)]
                latest_ms = max((ms for ms in others if ms is not None), default=now_ms - 1)
                since[place.address] = max(now_ms, latest_ms + 1)
            places = tuple(
                replace(place, accepted_ms=since.get(place.address, place.accepted_ms))
                for place in claim.places
            )
            self._drop(key)
            self._add(replace(claim, places=places))
            return since

    def release(self, key: Key) -> tuple[Key, ...]:
        """A table was deleted: the tables to look at again."""
        with self._lock:
            freed = self._drop(key)
            self._forget_arrivals(key, set())
            return tuple(sorted(freed))

    def others_in(self, key: Key, address: str) -> tuple[Taken, ...]:
        """Places at or below `address` where others were accepted, with or without precedence, and
        all of the same namespace."""
        with self._lock:
            held = self._at.get(address, set()) | self._below.get(address, set())
            own = ClaimedPlace(address, "", "")
            return tuple(
                Taken(candidate.key, own, candidate.place, is_foreign=candidate.key[0] != key[0])
                for candidate in held
                if candidate.key != key
                and (candidate.place.accepted_ms is not None or candidate.key[0] == key[0])
            )

    def _seniority(self, key: Key, place: ClaimedPlace) -> tuple[float, str, int]:
        """Smaller counts first; what was never accepted is last."""
        accepted_ms = float("inf") if place.accepted_ms is None else float(place.accepted_ms)
        return accepted_ms, self._claims[key].created_at, self._arrivals[key, place.address]

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
        rivals = {
            conflict.key for place in claim.places for conflict in self._conflicts(key, place)
        }
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
                is_foreign = key[0] != claim.key[0]
                if self._seniority(key, other) > own:
                    if _keeps_away(place, is_foreign=is_foreign):
                        juniors.add(key)
                elif _keeps_away(other, is_foreign=is_foreign):
                    elders.append(Taken(key, place, other, is_foreign))
        return elders, juniors

    def _conflicts(self, key: Key, place: ClaimedPlace) -> set[_Held]:
        """Places of others that `place` overlaps."""
        found = self._at.get(place.address, set()) | self._below.get(place.address, set())
        for above in _above(place.address):
            found = found | self._at.get(above, set())
        return {held for held in found if held.key != key and not _may_be_shared(held.place, place)}


def _keeps_away(place: ClaimedPlace, *, is_foreign: bool) -> bool:
    """Whether a place keeps juniors away, of another namespace where `is_foreign`."""
    return place.accepted_ms is not None and not (is_foreign and place.is_only_read)


def _may_be_shared(left: ClaimedPlace, right: ClaimedPlace) -> bool:
    both_read = left.is_landing and right.is_landing
    return both_read and not (left.is_emptied or right.is_emptied)


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
