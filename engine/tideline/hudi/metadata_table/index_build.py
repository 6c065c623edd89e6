"""Indexes that Hudi is building, in partitions of the metadata table that are not listed yet.

Hudi lists a partition when it is built, whatever became of its files meanwhile. One that is listed
without files fails queries and writes.

A CREATE INDEX that fails leaves its instant for good: no statement of Hudi's takes it away. What
tells it from one that is built is the definition, which is there from before the build until the
index is dropped; where the build fails Hudi takes it back. Record indexes and statistics have no
such definition, and for as long as Hudi reads the table nothing else: they are waited for until the
instant is gone.

Hudi lists a partition when its files are there, and only later names it in the property of those in
work as well: it then adds the commits that came meanwhile, and clears that property. So one that
is listed may lack commits for as long as its instant is inflight, whatever the property says. A
later build of the same name is known by its completed instant. A build also makes the statistics
that its writer's settings enable, lists them, and takes them out of the list when it is done.

The instant is requested under the lock, and is inflight without it. So a commit that saw it
requested looks again before it is visible (`require_none_started`): Hudi takes what is in the
metadata table already for what the partition has.
Source: HoodieSparkIndexClient, RunIndexActionExecutor (1.2); the order was watched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tideline.errors import ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.metadata_table.index_names import BELIEVED
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import METADATA_PARTITIONS_INFLIGHT, METADATA_TABLE_PATH
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State

PENDING = (State.INFLIGHT, State.REQUESTED)
"""In the order in which their objects go: one that is only requested stops nothing."""


def require_no_index_build(
    table: HoodieTable, timeline: ActiveTimeline, besides: Collection[Instant] = ()
) -> None:
    """Raise ConflictError while Hudi builds an index, `besides` these. One that is only requested
    reads what is there when it begins; one that failed counts no more when it is old."""
    for instant in timeline.of(Action.INDEXING).pending():
        if instant.state is not State.INFLIGHT or instant in besides:
            continue
        if not _has_failed(table, instant, timeline):
            raise ConflictError(
                "Hudi builds an index, which this change would break: try again when it is done. "
                f"Where its writer has died, {remedy(table, instant)}",
                table=table.uri,
                instant=instant,
            )


def require_none_started(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Raise ConflictError where a build that `timeline` has as requested is inflight now: it may
    have read the table without the commit that is about to complete."""
    for instant in timeline.of(Action.INDEXING).pending():
        inflight = instant.in_state(State.INFLIGHT)
        if instant.state is State.REQUESTED and table.store.head(table.timelines.path(inflight)):
            raise ConflictError(
                "Hudi started to build an index while this was about to complete: try again when "
                "it is done",
                table=table.uri,
                instant=inflight,
            )


def failed_builds(table: HoodieTable, timeline: ActiveTimeline) -> tuple[Instant, ...]:
    """The builds that left nothing but their instants, long after their start."""
    pending = timeline.of(Action.INDEXING).pending()
    inflight = (instant for instant in pending if instant.state is State.INFLIGHT)
    return tuple(instant for instant in inflight if _has_failed(table, instant, timeline))


def builds_of(
    table: HoodieTable, timeline: ActiveTimeline, name: str
) -> Mapping[Instant, frozenset[str]]:
    """The pending builds whose plans name a partition, and all that these name."""
    pending = timeline.of(Action.INDEXING).pending()
    planned = {instant: planned_partitions(table, instant) for instant in pending}
    return {instant: names for instant, names in planned.items() if name in names}


def is_silent(table: HoodieTable, instant: Instant) -> bool:
    """Whether a build began so long ago that a process that does nothing is taken for dead."""
    found = table.store.head(table.timelines.path(instant))
    silent_ms_max = DEFAULT_LIMITS.silent_s_max * 1000
    return found is not None and table.clock.now_ms() - found.modified_ms > silent_ms_max


def are_being_built(
    table: HoodieTable, timeline: ActiveTimeline, partitions: Collection[str]
) -> bool:
    """Whether Hudi is building any of these partitions, or died while it was.

    It lists one before it adds the commits that came meanwhile. Where it dies there the partition
    stays listed without them.
    """
    for instant in timeline.of(Action.INDEXING).pending():
        if instant.state is State.INFLIGHT:
            built = planned_partitions(table, instant)
            if not built or not built.isdisjoint(partitions):
                return True
    return False


def remedy(table: HoodieTable, instant: Instant) -> str:
    """What ends a build whose writer has died, in words."""
    built = sorted(planned_partitions(table, instant))
    silent_min = DEFAULT_LIMITS.silent_s_max / 60
    if not built:
        paths = [table.timelines.path(instant.in_state(state)) for state in PENDING]
        return f"no plan says what it builds: delete {' and '.join(paths)}"
    ours = (
        f"`tideline index drop {built[0]} --end-build` ends it, {silent_min:.0f} minutes after its "
        "start"
    )
    if all(name.startswith(BELIEVED) for name in built):
        return f"{ours}; or drop the index with Hudi (DROP INDEX), and wait for as long"
    return ours


def planned_partitions(table: HoodieTable, instant: Instant) -> frozenset[str]:
    """The partitions that are planned; none where the plan cannot be read."""
    try:
        plan = table.timelines.read_record(instant.in_state(State.REQUESTED))
    except (CorruptTableError, ObjectNotFoundError):
        return frozenset()
    return frozenset(
        partition["metadataPartitionPath"] for partition in plan.get("indexPartitionInfos") or ()
    )


def _has_failed(table: HoodieTable, instant: Instant, timeline: ActiveTimeline) -> bool:
    """Whether nothing is there of what it builds, long after its start.

    A commit of ours takes the definition of a build away that begins beside it, so that a young one
    without definition may be alive.
    """
    if not is_silent(table, instant):
        return False
    try:
        defined = set(read_definitions(table))
    except CorruptTableError:
        return False
    built = planned_partitions(table, instant)
    if not built or not all(name.startswith(BELIEVED) for name in built):
        return False
    config = table.properties.reload()
    below = table.store.list_directory(METADATA_TABLE_PATH).directories
    folders = {path.rpartition("/")[2] for path in below}
    in_work = config.properties.get(METADATA_PARTITIONS_INFLIGHT, "").split(",")
    left = built.intersection({*config.metadata_partitions, *in_work, *defined, *folders})
    later = timeline.of(Action.INDEXING).completed().after(instant.time)
    return left.isdisjoint(in_work) and left.issubset(
        name for other in later for name in planned_partitions(table, other)
    )
