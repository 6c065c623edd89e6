"""Looking at a table: its properties, timeline and landing prefixes, as an `Observed`. Reads only.

A look costs one request for the properties, one listing of the timeline, one read per commit not
seen before (usually one), one per pending write, and one listing per landing prefix that is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tideline.clock import Clock
from tideline.errors import ObjectNotFound, StorageUnavailable, TidelineError
from tideline.ingest.checkpoint import CHECKPOINT_PREFIX, INGEST_KEY, Checkpoint, read_checkpoints
from tideline.ingest.landing import FileFormat, list_landing
from tideline.ingest.operation import Place
from tideline.ingest.plan import LOCAL_SETTLE_MS
from tideline.services.rollback.execute import FailedWrites, find_failed_writes
from tideline.storage.heartbeat import heartbeat_age_ms
from tideline.storage.location import StoreLocation
from tideline.table.hoodie_table import HoodieTable
from tideline.timeline.active import ActiveTimeline
from tideline.timeline.carried import read_carried
from tideline.timeline.instant import Action, Instant
from tideline.timeline.instant_time import InstantTime
from tideline_operator.observed import (
    Observed,
    ObservedLanding,
    ObservedPending,
    ObservedTable,
    Problem,
)
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.triggers import due_ingests

# The engine's defaults, for a table whose properties do not say otherwise.
_HEARTBEAT_INTERVAL = ("hoodie.client.heartbeat.interval_in_ms", 60_000)
_HEARTBEAT_MISSES = ("hoodie.client.heartbeat.tolerable.misses", 10)
_FAILED_WRITES_POLICY = "hoodie.clean.failed.writes.policy"
_REMEMBERED_COMMITS = 10_000


class Observer:
    """Looks at tables, remembering what completed commits said: they never change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[tuple[str, InstantTime], Mapping[str, str]] = {}

    def observe(
        self,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        """Look at the table and at the landing prefixes that are due."""
        if table.spec.suspend:
            return Observed(running=running)
        try:
            found = self._table(table)
        except TidelineError as error:
            return Observed(running=running, problem=_problem(error))
        due = due_ingests(table.spec, status, found, self._clock.now_ms())
        landings = {
            ingest.name: _landing(ingest, table.landings[ingest.name])
            for ingest in table.spec.ingest
            if ingest.name in due
        }
        return Observed(found, landings, running)

    def _table(self, table: ResolvedTable) -> ObservedTable | None:
        location = StoreLocation.of(table.location.uri, dict(table.location.options))
        try:
            hoodie = HoodieTable.open(location, self._clock)
        except ObjectNotFound:
            return None
        config = hoodie.config
        timeline = hoodie.timeline()
        completed = timeline.completed()
        latest = completed.last()
        return ObservedTable(
            record_key=config.record_key_fields,
            partition_by=config.partition_fields,
            ordering=config.ordering_fields,
            table_type=config.table_type.value,
            hive_style=config.hive_style,
            url_encode=config.url_encode,
            latest=str(latest.time) if latest else None,
            latest_action=str(latest.action) if latest else None,
            completed=len(completed),
            pending=self._pending(hoodie, timeline),
            checkpoints=self._checkpoints(table, hoodie, timeline),
        )

    def _checkpoints(
        self, table: ResolvedTable, hoodie: HoodieTable, timeline: ActiveTimeline
    ) -> dict[str, Checkpoint]:
        def read(instant: Instant) -> Mapping[str, str]:
            key = (table.location.uri, instant.time)
            if key not in self._said:
                extra = hoodie.timelines.read_commit(instant).extra_metadata
                if len(self._said) >= _REMEMBERED_COMMITS:
                    self._said.clear()
                self._said[key] = {
                    name: text
                    for name, text in extra.items()
                    if name == INGEST_KEY or name.startswith(CHECKPOINT_PREFIX)
                }
            return self._said[key]

        def read_archived() -> Mapping[str, str]:
            if not timeline.has_archive:
                return {}
            return read_carried(hoodie.archived(), CHECKPOINT_PREFIX)

        names = [ingest.name for ingest in table.spec.ingest]
        return read_checkpoints(timeline, read, names, read_archived)

    def _pending(
        self, hoodie: HoodieTable, timeline: ActiveTimeline
    ) -> tuple[ObservedPending, ...]:
        policy = _failed_writes(hoodie)
        dead = {instant.time for instant in find_failed_writes(hoodie, timeline, policy)}
        dead |= {instant.time for instant in timeline.pending().of(Action.ROLLBACK)}
        return tuple(
            self._one_pending(hoodie, instant, policy, is_dead=instant.time in dead)
            for instant in timeline.pending()
        )

    def _one_pending(
        self, hoodie: HoodieTable, instant: Instant, policy: FailedWrites, *, is_dead: bool
    ) -> ObservedPending:
        dead_at_ms = None
        if not is_dead and not policy.never:
            age_ms = heartbeat_age_ms(hoodie.store, str(instant.time), self._clock)
            if age_ms is not None:
                silent_ms = int(policy.heartbeat_interval_s * 1000 * policy.tolerable_misses)
                dead_at_ms = self._clock.now_ms() - age_ms + silent_ms
        return ObservedPending(
            str(instant.time), str(instant.action), instant.state.name.lower(), is_dead, dead_at_ms
        )


def _failed_writes(hoodie: HoodieTable) -> FailedWrites:
    """Whose writes count as failed, by the table's own properties."""
    properties = hoodie.config.properties
    policy = properties.get(_FAILED_WRITES_POLICY, "").upper()

    def number(setting: tuple[str, int]) -> int:
        text = properties.get(setting[0], "")
        return int(text) if text.isdecimal() else setting[1]

    return FailedWrites(
        eager=policy == "EAGER" or (policy == "" and hoodie.config.single_writer),
        never=policy == "NEVER",
        heartbeat_interval_s=number(_HEARTBEAT_INTERVAL) / 1000,
        tolerable_misses=number(_HEARTBEAT_MISSES),
    )


def _landing(ingest: Ingest, place: Place) -> ObservedLanding:
    location = StoreLocation.of(place.uri, dict(place.options))
    store = location.open()
    root = store.local_path("")
    try:
        return ObservedLanding(
            list_landing(store, FileFormat(ingest.source.format.value)),
            settle_ms=LOCAL_SETTLE_MS if root is not None else 0,
            exists=root is None or Path(root).is_dir(),
        )
    except TidelineError as error:
        return ObservedLanding(problem=_problem(error))


def _problem(error: TidelineError) -> Problem:
    return Problem(
        reason=type(error).__name__,
        message=str(error),
        exit_code=error.exit_code,
        is_transient=isinstance(error, StorageUnavailable),
    )
