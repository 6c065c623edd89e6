"""Indexes that Hudi is building, in partitions of the metadata table that are not listed yet.

Hudi lists a partition when it is built, whatever became of its files meanwhile. One that is listed
without files fails queries and writes.

A CREATE INDEX that fails leaves its instant for good: no statement of Hudi's takes it away. What
tells it from one that is built is the definition, which is there from before the build until the
index is dropped; where the build fails Hudi takes it back. Record indexes and statistics have no
such definition, and for as long as Hudi reads the table nothing else: they are waited for until the
instant is gone.

Hudi lists a partition some time before it is done: it then adds the commits that came meanwhile,
and names the partition in the property of those in work.
Source: HoodieSparkIndexClient, RunIndexActionExecutor (1.2).
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.errors import ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.metadata_table.index_names import BELIEVED
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import METADATA_PARTITIONS_INFLIGHT, METADATA_TABLE_PATH
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State

_PENDING = (State.INFLIGHT, State.REQUESTED)


def require_no_index_build(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Raise ConflictError while Hudi builds an index. One that is only requested reads what is
    there when it begins; one that failed counts no more when it is old."""
    for instant in timeline.of(Action.INDEXING).pending():
        if instant.state is State.INFLIGHT and not _has_failed(table, instant):
            raise ConflictError(
                "Hudi builds an index, which this change would break: try again when it is done. "
                f"Where its writer has died, {_remedy(table, instant)}",
                table=table.uri,
                instant=instant,
            )


def are_being_built(
    table: HoodieTable, timeline: ActiveTimeline, partitions: Collection[str]
) -> bool:
    """Whether Hudi is building any of these partitions, or died while it was.

    It lists one before it adds the commits that came meanwhile. Where it dies there the partition
    stays listed without them.
    """
    for instant in timeline.of(Action.INDEXING).pending():
        if instant.state is State.INFLIGHT:
            built = _built(table, instant)
            if not built or not built.isdisjoint(partitions):
                return True
    return False


def _remedy(table: HoodieTable, instant: Instant) -> str:
    built = _built(table, instant)
    if built and all(name.startswith(BELIEVED) for name in built):
        silent_min = DEFAULT_LIMITS.silent_s_max / 60
        return (
            f"drop the index with Hudi (DROP INDEX); {silent_min:.0f} minutes after its start one "
            "that failed or was dropped is no longer in the way"
        )
    paths = [table.timelines.path(instant.in_state(state)) for state in _PENDING]
    return f"no statement of Hudi's ends its build: delete {' and '.join(paths)}"


def _has_failed(table: HoodieTable, instant: Instant) -> bool:
    """Whether nothing is there of what it builds, long after its start.

    A commit of ours takes the definition of a build away that begins beside it, so that a young one
    without definition may be alive.
    """
    found = table.store.head(table.timelines.path(instant))
    silent_ms_max = DEFAULT_LIMITS.silent_s_max * 1000
    if found is None or table.clock.now_ms() - found.modified_ms <= silent_ms_max:
        return False
    try:
        defined = set(read_definitions(table))
    except CorruptTableError:
        return False
    built = _built(table, instant)
    if not built or not all(name.startswith(BELIEVED) for name in built):
        return False
    config = table.properties.reload()
    below = table.store.list_directory(METADATA_TABLE_PATH).directories
    folders = {path.rpartition("/")[2] for path in below}
    in_work = config.properties.get(METADATA_PARTITIONS_INFLIGHT, "").split(",")
    # What is listed, and no longer in work, was built by a later one of the same name.
    missing = built.difference(config.metadata_partitions)
    return built.isdisjoint(in_work) and missing.isdisjoint({*defined, *folders})


def _built(table: HoodieTable, instant: Instant) -> frozenset[str]:
    """The partitions that are planned; none where the plan cannot be read."""
    try:
        plan = table.timelines.read_record(instant.in_state(State.REQUESTED))
    except (CorruptTableError, ObjectNotFoundError):
        return frozenset()
    return frozenset(
        partition["metadataPartitionPath"] for partition in plan.get("indexPartitionInfos") or ()
    )
