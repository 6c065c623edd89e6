"""Builds of indexes of Hudi's that died: their instants, as its indexer leaves them on a timeline,
and what they listed without the commits that came meanwhile."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import fastavro

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import METADATA_PARTITIONS
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.small_table import QUIET, SmallTable, batch

_PARTITION = {
    "type": "record",
    "name": "HoodieIndexPartitionInfo",
    "fields": [{"name": "metadataPartitionPath", "type": "string"}],
}
_PLAN = {
    "type": "record",
    "name": "HoodieIndexPlan",
    "fields": [{"name": "indexPartitionInfos", "type": {"type": "array", "items": _PARTITION}}],
}


def index_plan(names: Sequence[str]) -> bytes:
    """The plan of a build of these partitions."""
    plan = {"indexPartitionInfos": [{"metadataPartitionPath": name} for name in names]}
    body = io.BytesIO()
    fastavro.writer(body, _PLAN, [plan])
    return body.getvalue()


def put_index_build(
    table: HoodieTable,
    names: Sequence[str],
    time: InstantTime | None = None,
    *,
    state: State = State.INFLIGHT,
) -> Instant:
    """A build of these partitions that got as far as `state`; one without names has no plan."""
    time = time or table.instants.next_time(table.timeline())
    requested = Instant(time, Action.INDEXING, State.REQUESTED)
    table.store.put(table.timelines.path(requested), index_plan(names) if names else b"")
    if state is not State.REQUESTED:
        inflight = requested.in_state(State.INFLIGHT)
        table.store.put(table.timelines.path(inflight), b"")
    if state is State.COMPLETED:
        at = table.instants.completed_now(inflight, table.timeline()).completion_time
        table.timelines.complete(inflight, b"", at=at)
    return requested.in_state(state)


def with_dead_build(small: SmallTable, name: str, *others: str) -> None:
    """A build of this index that listed it, and these others; a commit came meanwhile."""
    put_index_build(small.lake().hoodie_table, [name])
    small.fake_clock.advance(1)
    table = small.lake().hoodie_table
    listed = table.config.metadata_partitions
    _without_instants(small, lambda: [small.lake().indexes({}).create(i) for i in (*others, name)])
    made = small.lake().hoodie_table.config.metadata_partitions
    # The commit that its writer did not live to add.
    small.lake().hoodie_table.properties.update({METADATA_PARTITIONS: ",".join(listed)})
    definitions = small.store()
    path = ".hoodie/.index_defs/index.json"
    defined = definitions.get(path) if definitions.head(path) else None
    _without_instants(small, lambda: small.write("upsert", batch([1, 9], 5), options=QUIET))
    if defined is not None:
        definitions.put(path, defined)
    small.lake().hoodie_table.properties.update({METADATA_PARTITIONS: ",".join(made)})


def _without_instants(small: SmallTable, work: Callable[[], object]) -> None:
    """Do something as if the builds were not there: a writer of Hudi's does not look for them."""
    table = small.lake().hoodie_table
    builds = table.timeline().of(Action.INDEXING).pending().instants
    paths = [table.timelines.path(instant) for instant in builds]
    bodies = {path: table.store.get(path) for path in paths}
    for path in paths:
        table.store.delete(path)
    work()
    for path, body in bodies.items():
        table.store.put(path, body)
