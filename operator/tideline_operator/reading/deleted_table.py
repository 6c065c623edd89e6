"""Whether the data of a deleted LakeTable may be deleted, and deleting it, step by step.

Only the table that the resource created, or found to be as declared (`status.owned`), is deleted,
and only while the same table is still there: it has the same identity, and its timeline has the
newest instant that was seen. Otherwise the data is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tideline.clock import Clock
from tideline.errors import ConfigError, ObjectNotFoundError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.ingest.operation.operation import OperationKind
from tideline.publication.place import place_in
from tideline.registration.target import targets_in
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.refusals import MissingBucketError
from tideline_operator.decide.observed import Observed
from tideline_operator.decide.service_settings import sync_setting
from tideline_operator.decide.table_difference import difference_of
from tideline_operator.observe.table_identity import identity_of
from tideline_operator.reading.table_removal import TableRemoval
from tideline_operator.report.status import owned_table
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus, OwnedTable

STEP_S = 20.0
LEFT_COUNTED = 1_000
LEFT_NAMED = 3
_MADE_HERE = (OperationKind.CREATE.value, OperationKind.INGEST.value)


@dataclass(frozen=True, slots=True)
class DeletionCheck:
    """What is at the location. Without a table: how many files there are, counted up to
    `LEFT_COUNTED`, and the names of the first. With one: the `objection` to deleting it, and the
    table that is `owned`."""

    has_table: bool
    left: int = 0
    left_named: tuple[str, ...] = ()
    objection: str | None = None
    owned: OwnedTable | None = None


@dataclass(frozen=True, slots=True)
class Removal:
    """A deletion that was checked. `uid` identifies it, `others` are places of other LakeTables
    below the location, by path, each with its owner."""

    uid: str
    owned: OwnedTable | None
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """What one step did: objects deleted in this step, and where the deletion stands.

    `is_other`: another table is there by now. `kept` are files that are not the table's, some of
    them named with the reason; `published` is where the table is still named.
    """

    is_done: bool
    deleted: int = 0
    is_other: bool = False
    has_table: bool = True
    kept: int = 0
    kept_named: tuple[tuple[str, str], ...] = ()
    published: str | None = None


def check_deletion(
    table: ResolvedTable,
    status: LakeTableStatus,
    store: ObjectStore,
    clock: Clock,
    observe: Callable[[], Observed],
) -> DeletionCheck:
    """Whether the table at the location of `store` may be deleted. `observe` looks at it."""
    try:
        hoodie = _open(table, store, clock)
    except MissingBucketError:
        return DeletionCheck(False, 0)
    except ObjectNotFoundError:
        left = [found.path for found in itertools.islice(store.list(), LEFT_COUNTED)]
        return DeletionCheck(False, len(left), tuple(left[:LEFT_NAMED]))
    if status.owned is None:
        return _adopted(table, status, hoodie, observe)
    return DeletionCheck(True, objection=_objection(table, status, hoodie), owned=status.owned)


def _objection(table: ResolvedTable, status: LakeTableStatus, hoodie: HoodieTable) -> str | None:
    """Why the table at the location must not be deleted."""
    if status.owned != _owned(table, hoodie):
        return "the table at the location is not the one this resource managed"
    newest = status.timeline.latest
    if newest is None or not is_instant_time(newest):
        return None
    time = InstantTime(newest)
    if time in {instant.time for instant in hoodie.timeline().completed()}:
        return None
    if hoodie.commits.archive().find(frozenset({time})):
        return None
    return f"the table at the location does not have {newest}, the newest instant seen of it"


def _adopted(
    table: ResolvedTable,
    status: LakeTableStatus,
    hoodie: HoodieTable,
    observe: Callable[[], Observed],
) -> DeletionCheck:
    """A table that was never looked at: ours if we were about to create it, and as declared."""
    never = "this resource never found its own table there"
    if all(entry.kind not in _MADE_HERE for entry in status.operations):
        return DeletionCheck(True, objection=never)
    seen = observe()
    if seen.table is None:
        against = seen.problem or seen.refused
        return DeletionCheck(
            True, objection=f"{never}: {against.message if against else 'it cannot be read'}"
        )
    difference = difference_of(table.spec, seen.table)
    return DeletionCheck(True, objection=difference, owned=_owned(table, hoodie))


@dataclass(slots=True)
class Removals:
    """The deletions that are under way in this process; what is known of one may be lost."""

    clock: Clock
    _known: dict[str, TableRemoval] = field(default_factory=dict)

    def step(
        self,
        table: ResolvedTable,
        removal: Removal,
        store: ObjectStore,
        may_write: Callable[[], None],
    ) -> RemovalStep:
        """Delete for `STEP_S` at the most. `may_write` raises when nothing may be written."""
        try:
            hoodie = _open(table, store, self.clock)
        except (ObjectNotFoundError, MissingBucketError):
            return RemovalStep(True, has_table=False)
        if removal.owned is None or removal.owned != _owned(table, hoodie):
            return RemovalStep(True, is_other=True)
        until_s = self.clock.monotonic_s() + STEP_S

        def may_go_on() -> bool:
            may_write()
            return self.clock.monotonic_s() < until_s

        work = self._known.get(removal.uid)
        if work is None:
            work = TableRemoval(store, dict(removal.others), may_go_on)
            self._known[removal.uid] = work
        work.store, work.may_go_on = hoodie.store, may_go_on
        before = work.deleted
        is_done = work.run()
        if is_done:
            self._known.pop(removal.uid, None)
        return RemovalStep(
            is_done,
            work.deleted - before,
            kept=work.kept.count,
            kept_named=tuple(work.kept.named.items()),
            published=_named_in(table, hoodie),
        )


def _named_in(table: ResolvedTable, hoodie: HoodieTable) -> str | None:
    """The catalog and the metastores that name the table."""
    named: list[object] = [place_in(hoodie.config.properties)]
    with suppress(ConfigError):
        named += targets_in(hoodie.config, sync_setting(table.spec))
    return ", ".join(str(place) for place in named if place is not None) or None


def _open(table: ResolvedTable, store: ObjectStore, clock: Clock) -> HoodieTable:
    location = StoreLocation.of(table.location.uri, dict(table.location.options))
    return open_table(location, clock, store)


def _owned(table: ResolvedTable, hoodie: HoodieTable) -> OwnedTable:
    return owned_table(table, identity_of(hoodie.config))
