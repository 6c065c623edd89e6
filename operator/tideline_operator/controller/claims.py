"""The places that LakeTables claim, and which of the claims count.

1. A table claims its places before it is looked at, see locations.py.
2. A claim counts once the store has accepted the claimant's credentials there. Where something will
   be written an object is created and deleted again, with those credentials, by the operator: a
   right to read is no title to a place, and what pods report is written by their namespace.
3. What was accepted is kept in the status with its time and its address, so that another process
   comes to the same result, and a LakeStore that names another server is checked again.
4. It is checked again now and then, and soon after a look that failed. What the store refuses by
   then keeps nobody away any more, unless operations of the table are under way.

A claimant that the store does not accept gets only the store's own words. No message has a name or
a path of another namespace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.ingest.location import Location
from tideline_operator.api_objects import LeadershipLostError, Manifest
from tideline_operator.controller.locations import ClaimedPlace, Locations, TableClaim, Taken
from tideline_operator.controller.object_cache import key_of
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.addresses import address_of
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import AcceptedClaim, LakeTableStatus

MayWrite = Callable[[Location], bool]
"""Whether the store accepts the claimant's credentials at a place. Raises TidelineError when it
does not say."""

CHECK_AGAIN_S = 6 * 3600.0
CHECK_SOON_S = 60.0
_STRANGER = "another namespace's LakeTable"


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """The status with the claims that count now. `problem` is why that could not be found out for
    a place, `taken` what was accepted there before."""

    status: LakeTableStatus
    problem: TidelineError | None = None
    taken: Taken | None = None


@dataclass(frozen=True, slots=True)
class _Checked:
    """When a store was asked about which places, and which it granted. `has_answered`: it said
    something about each."""

    at_s: float
    addresses: frozenset[str]
    granted: frozenset[str]
    has_answered: bool


class Claims:
    """The claims of all tables. For any number of threads, each with another table. `wake` is
    called with each table to be looked at again."""

    def __init__(self, locations: Locations, clock: Clock, wake: Callable[[Key], None]) -> None:
        self._locations = locations
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._checked: dict[Key, _Checked] = {}

    def claim(self, item: Manifest, table: ResolvedTable) -> Taken | None:
        """Register what a table claims: what is in its way."""
        places = claimed_places(table, self._accepted(item))
        return self._register(TableClaim(key_of(item), places, _created_at(item)))

    def restore(self, item: Manifest) -> None:
        """Register what a table was accepted at before this process, whatever else is known of it:
        until its first turn nobody else gets these places."""
        places = tuple(
            ClaimedPlace(address, "spec.location", address.partition("|")[2], accepted_ms=since_ms)
            for address, since_ms in self._accepted(item, with_only_read=False).items()
        )
        if places:
            self._locations.claim(TableClaim(key_of(item), places, _created_at(item)))

    def release(self, key: Key) -> None:
        """The table was deleted: its places are free."""
        with self._lock:
            self._checked.pop(key, None)
        for other in self._locations.release(key):
            self._wake(other)

    def check(
        self,
        item: Manifest,
        table: ResolvedTable,
        status: LakeTableStatus,
        may_write: MayWrite,
        *,
        is_seen: bool,
        has_problem: bool,
    ) -> ClaimCheck:
        """Which claims of a table count, after a look at it. `is_seen`: its catalog showed it.

        Raises LeadershipLostError.
        """
        key = key_of(item)
        places = claimed_places(table, self._accepted(item))
        known = {claim.address: claim for claim in status.claims}
        addresses = frozenset(place.address for place in places)
        if not self._is_due(key, addresses, frozenset(known), has_problem=has_problem):
            return ClaimCheck(status)
        answers, problem = _ask(places, table, item, may_write, is_seen=is_seen)
        granted = frozenset(address for address, is_granted in answers.items() if is_granted)
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._checked[key] = _Checked(now_s, addresses, granted, problem is None)
        is_at_work = any(entry.is_under_way for entry in status.operations)
        denied = frozenset() if is_at_work else frozenset(answers) - granted
        since = self._locations.accepted_ms(key, granted - set(known), self._clock.now_ms())
        only_read = {place.address for place in places if place.is_only_read}
        new = (
            AcceptedClaim(
                address=address, accepted_at=Timestamp(ms), is_only_read=address in only_read
            )
            for address, ms in since.items()
        )
        kept = (claim for claim in status.claims if claim.address in addresses - denied)
        status = replace(status, claims=(*kept, *new))
        if problem is not None and not known:
            return ClaimCheck(status, problem)
        accepted = {claim.address: claim.accepted_at.ms for claim in status.claims}
        claim = TableClaim(key, claimed_places(table, accepted), _created_at(item))
        return ClaimCheck(status, taken=self._register(claim))

    def others_below(self, key: Key, table: ResolvedTable) -> dict[str, str]:
        """Places that other LakeTables claim below a table's location, by path, with the owner."""
        address = claimed_address(table)
        return {
            taken.elder.address.removeprefix(address).strip("/"): _owner(taken)
            for taken in self._locations.others_in(key, address)
            if taken.elder.address != address
        }

    def _accepted(self, item: Manifest, *, with_only_read: bool = True) -> dict[str, int]:
        """Where the store has accepted a table, by address: since when.

        A table that an earlier version found to be its own was accepted when its resource was
        created, until the store is asked for the first time.
        """
        stored = item.get("status") or {}
        claims = {name: stored[name] for name in ("claims", "owned") if name in stored}
        status = parse_stored(LakeTableStatus, claims) or LakeTableStatus()
        if not status.claims and status.owned is not None:
            with self._lock:
                checked = self._checked.get(key_of(item))
            if checked is None or not checked.has_answered:
                return {status.owned.location: Timestamp.parse(_created_at(item)).ms}
        return {
            claim.address: claim.accepted_at.ms
            for claim in status.claims
            if with_only_read or not claim.is_only_read
        }

    def _register(self, claim: TableClaim) -> Taken | None:
        taken, moved = self._locations.claim(claim)
        for other in moved:
            self._wake(other)
        return taken

    def _is_due(
        self, key: Key, addresses: frozenset[str], known: frozenset[str], *, has_problem: bool
    ) -> bool:
        """Whether the store is to be asked: about a new place, about what was answered and not
        written, and again after a time that is short while something is wrong."""
        with self._lock:
            checked = self._checked.get(key)
        if checked is None or checked.addresses != addresses or checked.granted - known:
            return True
        age_s = self._clock.monotonic_s() - checked.at_s
        is_wrong = has_problem or bool(addresses - known)
        return age_s > (CHECK_SOON_S if is_wrong else CHECK_AGAIN_S)


def claimed_places(table: ResolvedTable, accepted: Mapping[str, int]) -> tuple[ClaimedPlace, ...]:
    """The location and the landing prefixes of a table; `accepted`: since when, by address."""
    namespace = table.resource.metadata.namespace
    spec = table.resource.spec

    def claimed(address: str, field: str, shown: str, **kind: bool) -> ClaimedPlace:
        return ClaimedPlace(address, field, shown, accepted_ms=accepted.get(address), **kind)

    in_catalog = spec.home_catalog is not None
    field = "spec.catalog" if in_catalog else "spec.location"
    places = [claimed(claimed_address(table), field, table.address, is_in_catalog=in_catalog)]
    for position, ingest in enumerate(spec.ingest):
        source = f"spec.ingest[{position}].source"
        places += [
            claimed(
                address_of(used.place, namespace),
                f"{source}.{used.field}",
                used.place.uri,
                is_landing=True,
                is_emptied=used.is_emptied,
            )
            for used in table.sources[ingest.name].claimed
        ]
    return tuple(places)


def claimed_address(table: ResolvedTable) -> str:
    """The address of the table itself."""
    namespace = table.resource.metadata.namespace
    return address_of(Location(table.address, table.location.options), namespace)


def taken_message(taken: Taken) -> str:
    """Why a table cannot have a place, without a word about other namespaces."""
    own, elder = taken.own, taken.elder
    there = "" if taken.is_foreign else f" {elder.shown},"
    at_it = "" if taken.is_foreign else f" at {elder.shown}"
    owner = _owner(taken)
    if own.is_landing and elder.is_landing:
        return (
            f"{own.field}: {own.shown} overlaps{there} a landing prefix of {owner}, and files are "
            "taken away from one of the two (source.taken): keep them, or give each table its own "
            "landing prefix"
        )
    if own.is_landing:
        return (
            f"{own.field}: {own.shown} and the table of {owner}{at_it} overlap; choose a landing "
            "prefix outside of tables"
        )
    if elder.is_landing:
        return (
            f"{own.field}: {own.shown} and a landing prefix{at_it} of {owner} overlap; choose a "
            "location outside of landing prefixes"
        )
    return (
        f"{own.field}: {own.shown} overlaps{there} the location of {owner}; choose another "
        "location or delete one of the two"
    )


def _ask(
    places: tuple[ClaimedPlace, ...],
    table: ResolvedTable,
    item: Manifest,
    may_write: MayWrite,
    *,
    is_seen: bool,
) -> tuple[dict[str, bool], TidelineError | None]:
    """What the store says about each place that it was asked about, and why it was not asked about
    the rest. What is only read goes with the table: it keeps away this namespace's tables alone."""
    answers: dict[str, bool] = {}
    first = places[0]
    remote = {address_of(place, item["metadata"]["namespace"]): place for place in _written(table)}
    try:
        if first.is_in_catalog:
            if not is_seen:
                return {}, None
            answers[first.address] = True
        for place in places:
            if not place.is_only_read:
                answers[place.address] = may_write(remote[place.address])
    except LeadershipLostError:
        raise
    except TidelineError as error:
        return answers, error
    for place in places:
        if place.is_only_read:
            answers.setdefault(place.address, answers[first.address])
    return answers, None


def _written(table: ResolvedTable) -> tuple[Location, ...]:
    return table.places


def _owner(taken: Taken) -> str:
    return _STRANGER if taken.is_foreign else f"LakeTable {'/'.join(taken.key)}"


def _created_at(item: Manifest) -> str:
    return str(item["metadata"].get("creationTimestamp", ""))
