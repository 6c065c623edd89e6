"""Looking at a table: its properties, timeline and sources, as an `Observed`. Reads only.

A poll of a table at rest costs one listing per landing prefix that is due (resting.py,
source_looks.py). Any other look at a Hudi table costs also one request for the properties, one
listing of the timeline, one read per commit not seen before (usually one) and up to three per
pending instant. The table's files are counted only after something completed, and never
more often than makes counting a small part of the time; markers and heartbeats are listed only
while archival seems due. What else is read to find out what the table is: known_capabilities.py;
for Iceberg: iceberg_observation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tideline.bounded.read_limits import reading_in_turn
from tideline.clock import Clock
from tideline.errors import ConfigError, ObjectNotFoundError, TidelineError
from tideline.hudi.open_table import open_table
from tideline.hudi.recovery.execute import FailedWrites, find_failed_writes
from tideline.hudi.services.registry import ROLLBACK, all_services
from tideline.hudi.table.file_counts import SMALL_FILE, FileCounts
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.location_conflict import find_table_conflict
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TIMEZONE
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.sources.checkpoint import (
    Checkpoint,
)
from tideline.storage.heartbeat import heartbeat_age_ms, heartbeat_writer
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import CONTROL_FOLDER
from tideline.storage.object_store import ObjectStore
from tideline.storage.refusals import MissingBucketError
from tideline_operator.decide.adoption import Adoption
from tideline_operator.decide.observed import (
    LOCATION_TAKEN,
    Observed,
    ObservedPending,
    ObservedSource,
    ObservedTable,
    Problem,
)
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.decide.service_settings import service_settings
from tideline_operator.decide.triggers import due_ingests
from tideline_operator.observe.iceberg_observation import IcebergMemory, observe_iceberg
from tideline_operator.observe.iceberg_source import IcebergSource, open_source
from tideline_operator.observe.instant_reader import InstantMemory, InstantReader
from tideline_operator.observe.problems import problem_of
from tideline_operator.observe.resting import RestingTables, is_quiet
from tideline_operator.observe.source_looks import ReachOf, SourceLooks, with_environment
from tideline_operator.observe.table_identity import identity_of
from tideline_operator.resources.lake_table import TableFormat
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

_FAILED_WRITES_POLICY = "hoodie.clean.failed.writes.policy"
_COUNTING_SHARE = 20
"""Counting files may take this fraction (one part in 20) of the time."""


OpenStore = Callable[[ResolvedTable, Location], ObjectStore]
"""Opens a place that a table names, with the credentials that are right for it."""


def open_with_environment(_: ResolvedTable, place: Location) -> ObjectStore:
    """Open a place with the credentials of the environment."""
    return StoreLocation.of(place.uri, dict(place.options)).open()


OpenSource = Callable[[ResolvedTable, OpenStore, Clock], IcebergSource]
"""Opens the metadata of an Iceberg table, in its folder or its catalog."""


class Observer:
    """Looks at tables, remembering the content of completed instants. For any number of threads,
    each for another table."""

    def __init__(
        self,
        clock: Clock,
        open_store: OpenStore = open_with_environment,
        open_iceberg: OpenSource = open_source,
        reach_of: ReachOf | None = None,
    ) -> None:
        """Without `reach_of` sources are reached with the environment's credentials."""
        self._clock = clock
        self._open_store = open_store
        self._open_iceberg = open_iceberg
        self._memories: dict[Location, InstantMemory] = {}
        self._iceberg: dict[str, IcebergMemory] = {}
        self._looks = SourceLooks(clock, reach_of or with_environment(open_store))
        self._resting = RestingTables()

    def forget(self, table: ResolvedTable) -> None:
        """Drop what is remembered of a table that is not observed any more."""
        self._memories.pop(table.location, None)
        self._iceberg.pop(table.address, None)
        self._looks.forget(table)
        self._resting.forget(table)

    def observe(
        self,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        """Look at the table and at the sources that are due.

        Content written by others is read within limits, large objects of one table at a time, so
        that no table takes the memory that looking at the others needs.
        """
        if table.spec.suspend:
            return Observed(running=running)
        with reading_in_turn():
            return self._observe(table, status, running)

    def _observe(
        self, table: ResolvedTable, status: LakeTableStatus, running: frozenset[str]
    ) -> Observed:
        if table.spec.format is TableFormat.ICEBERG:
            return self._iceberg_table(table, status, running)
        now_ms = self._clock.now_ms()
        sources: dict[str, ObservedSource] = {}
        resting = None if running else self._resting.known(table, status, now_ms)
        if resting is not None:
            sources = self._sources(table, status, resting.checkpoints, now_ms)
            if sources and is_quiet(table, resting, sources, now_ms):
                return Observed(resting, sources)
        before = self._resting.take(table)
        lacks_bucket = False
        try:
            found = self._table(table, status)
        except MissingBucketError as error:
            if not StoreLocation.of(
                table.location.uri, dict(table.location.options)
            ).creates_bucket:
                return Observed(running=running, problem=problem_of(error))
            found, lacks_bucket = None, True
        except TidelineError as error:
            return Observed(running=running, problem=problem_of(error))
        if isinstance(found, Adoption):
            return Observed(running=running, refused=found)
        if found is None and not lacks_bucket and not running:
            problem = self._in_the_way(table)
            if problem is not None:
                return Observed(running=running, problem=problem)
        if not running:
            self._resting.note(table, found, now_ms, before)
        checkpoints = {} if found is None else found.checkpoints
        sources = sources or self._sources(table, status, checkpoints, self._clock.now_ms())
        return Observed(found, sources, running, lacks_bucket=lacks_bucket)

    def _sources(
        self,
        table: ResolvedTable,
        status: LakeTableStatus,
        checkpoints: Mapping[str, Checkpoint],
        now_ms: int,
    ) -> dict[str, ObservedSource]:
        """The sources that are due to be looked at."""
        due = due_ingests(table.spec, status, checkpoints, now_ms)
        return {
            ingest.name: self._looks.look(table, ingest, checkpoints)
            for ingest in table.spec.ingest
            if ingest.name in due
        }

    def _in_the_way(self, table: ResolvedTable) -> Problem | None:
        """Another table where this one is to be created."""
        try:
            words = find_table_conflict(
                StoreLocation.of(table.location.uri, dict(table.location.options)),
                lambda at: self._open_store(table, Location(at.uri, at.options)),
            )
        except TidelineError as error:
            return problem_of(error)
        if words is None:
            return None
        message = f"spec.location: {table.location.uri} is {words}; choose another folder"
        return Problem(LOCATION_TAKEN, message, ConfigError.exit_code, is_transient=False)

    def _iceberg_table(
        self, table: ResolvedTable, status: LakeTableStatus, running: frozenset[str]
    ) -> Observed:
        seen: ObservedIceberg | None = None
        memory = self._iceberg.setdefault(table.address, IcebergMemory())
        try:
            source = self._open_iceberg(table, self._open_store, self._clock)
            seen = observe_iceberg(source, table.spec, memory, self._clock)
        except ObjectNotFoundError:
            self._iceberg.pop(table.address, None)
            taken = self._taken_by_hudi(table)
            if taken is not None:
                return Observed(running=running, problem=taken)
        except TidelineError as error:
            return Observed(running=running, problem=problem_of(error))
        now_ms = self._clock.now_ms()
        checkpoints = {} if seen is None else seen.checkpoints
        sources = self._sources(table, status, checkpoints, now_ms)
        return Observed(sources=sources, running=running, iceberg=seen)

    def _taken_by_hudi(self, table: ResolvedTable) -> Problem | None:
        """The problem of a folder that has a Hudi table where an Iceberg table is declared."""
        if table.spec.catalog is not None:
            return None
        try:
            store = self._open_store(table, table.location)
            if not store.list_directory(CONTROL_FOLDER).objects:
                return None
        except TidelineError as error:
            return problem_of(error)
        message = (
            f"spec.location: {table.location.uri} is that of a Hudi table; leave spec.format out, "
            "or choose another folder"
        )
        return Problem(LOCATION_TAKEN, message, ConfigError.exit_code, is_transient=False)

    def _table(
        self, table: ResolvedTable, status: LakeTableStatus
    ) -> ObservedTable | Adoption | None:
        """The table; the decision against it where it is refused; None where there is none."""
        location = StoreLocation.of(table.location.uri, dict(table.location.options))
        try:
            store = self._open_store(table, table.location)
            hoodie = open_table(location, self._clock, store)
        except ObjectNotFoundError:
            return None
        hoodie.instants.declare_zone(service_settings(table.spec).get(TIMEZONE))
        memory = self._memories.setdefault(table.location, InstantMemory())
        config = hoodie.config
        timeline = hoodie.timeline()
        adoption = memory.capabilities.decide(hoodie, timeline, table.spec, status)
        if adoption.is_refused:
            return adoption
        completed = timeline.completed()
        latest = completed.last()
        reader = InstantReader(table, hoodie, timeline, memory)
        found = reader.clusterings()
        counts = self._counts(hoodie, timeline, memory)
        seen = ObservedTable(
            record_key=config.record_key_fields,
            partition_by=config.partition_fields,
            ordering=config.ordering_fields,
            table_type=config.table_type.value,
            hive_style=config.hive_style,
            url_encode=config.url_encode,
            latest=str(latest.time) if latest else None,
            latest_action=str(latest.action) if latest else None,
            completed=len(completed),
            pending=self._pending(hoodie, timeline, found),
            checkpoints=reader.checkpoints(),
            is_single_writer=config.single_writer,
            history=reader.history(found),
            savepoints=reader.savepoints(),
            counts=counts,
            identity=identity_of(config),
            adoption=adoption,
        )
        return reader.with_archival_holds(seen, self._clock.now_ms())

    def _counts(
        self, hoodie: HoodieTable, timeline: ActiveTimeline, memory: InstantMemory
    ) -> FileCounts | None:
        """The table's files, when something completed since they were counted."""
        completed, started_ms = timeline.completed(), self._clock.now_ms()
        if memory.counted == completed or started_ms < memory.count_again_ms:
            return None
        counts = count_files(hoodie, timeline)
        ended_ms = self._clock.now_ms()
        memory.counted = completed
        times = frozenset(instant.time for instant in completed)
        memory.without_logs = None if counts.log_files else times
        memory.count_again_ms = ended_ms + _COUNTING_SHARE * max(0, ended_ms - started_ms)
        return counts

    def _pending(
        self, hoodie: HoodieTable, timeline: ActiveTimeline, found: frozenset[InstantTime]
    ) -> tuple[ObservedPending, ...]:
        policy = _failed_writes(hoodie)
        dead = {instant.time for instant in find_failed_writes(hoodie, timeline, policy)}
        dead |= {instant.time for instant in timeline.pending().of(Action.ROLLBACK)}
        seen = tuple(
            self._one_pending(hoodie, instant, policy, found, is_dead=instant.time in dead)
            for instant in timeline.pending()
        )
        if policy.never:
            return seen
        return tuple(
            replace(instant, writer=heartbeat_writer(hoodie.store, instant.time))
            if instant.dead_at_ms is not None and instant.service is None
            else instant
            for instant in seen
        )

    def _one_pending(
        self,
        hoodie: HoodieTable,
        instant: Instant,
        policy: FailedWrites,
        found: frozenset[InstantTime],
        *,
        is_dead: bool,
    ) -> ObservedPending:
        services = (
            service
            for service in all_services()
            if service != ROLLBACK and service.owns(instant, found)
        )
        service = next(services, None)
        name = str(instant.time)
        is_idle = service is not None and policy.is_dead(hoodie, instant.time)
        dead_at_ms = None
        if not is_dead and not is_idle and not (policy.never and service is None):
            age_ms = heartbeat_age_ms(hoodie.store, name, self._clock)
            if age_ms is not None:
                silent_ms_max = int(policy.heartbeat.silent_s_max * 1000)
                dead_at_ms = self._clock.now_ms() - age_ms + silent_ms_max
        state = instant.state.name.lower()
        return ObservedPending(
            name, str(instant.action), state, is_dead, dead_at_ms, service, is_idle
        )


def count_files(table: HoodieTable, timeline: ActiveTimeline) -> FileCounts:
    """Count the files of an open table; where its limit cannot be read, by the default one. Lists
    all of them."""
    try:
        small_bytes = Settings(table.config.properties).integer(SMALL_FILE)
    except ConfigError:
        small_bytes = Settings({}).integer(SMALL_FILE)
    return FileCounts.of(table.files.read_view(timeline), small_bytes)


def _failed_writes(hoodie: HoodieTable) -> FailedWrites:
    """Which writes count as failed, by the table's own properties."""
    properties = hoodie.config.properties
    read = Settings(properties)
    policy = read.text(_FAILED_WRITES_POLICY, "").upper()
    return FailedWrites(
        eager=policy == "EAGER" or (policy == "" and hoodie.config.single_writer),
        never=policy == "NEVER",
        heartbeat=read.heartbeat_limits(),
    )
