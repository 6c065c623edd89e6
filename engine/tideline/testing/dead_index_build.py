"""The instant of a build of indexes of Hudi's, as its indexer leaves it on a timeline."""

from __future__ import annotations

import io
from collections.abc import Sequence

import fastavro

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

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
