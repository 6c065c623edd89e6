"""When a source is to be looked at: from its trigger and what happened last."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline_operator.decide.planned_operation import is_wanted_again, once_number
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.status import IngestStatus, LakeTableStatus

ONCE_POLL_MS = 30_000
"""How often an empty source with a `once` trigger is looked at."""


def due_ingests(
    spec: LakeTableSpec,
    status: LakeTableStatus,
    checkpoints: Mapping[str, Checkpoint],
    now_ms: int,
) -> tuple[str, ...]:
    """Names of the ingests whose source is to be looked at now."""
    if spec.suspend or spec.fenced or spec.restore_to is not None:
        return ()
    due = []
    for ingest in spec.ingest:
        at_ms = next_poll_ms(spec, ingest, status.ingest.get(ingest.name), checkpoints, now_ms)
        if at_ms is not None and at_ms <= now_ms:
            due.append(ingest.name)
    return tuple(due)


def look_after(
    ingest: Ingest, checkpoints: Mapping[str, Checkpoint], full_look_ms: int | None, now_ms: int
) -> str:
    """Behind what a source is looked at; empty for a full look.

    `full_look_ms` is when the last full one was, None where that is not known.
    """
    every = ingest.source.partial_looks
    checkpoint = newest_of(checkpoints, ingest.name, ingest.renamed_from or "")
    if checkpoint is None or every is None or ingest.trigger.once:
        return ""
    is_full_due = full_look_ms is None or now_ms >= full_look_ms + every.ms
    if is_full_due or checkpoint.position.needs_whole_look:
        return ""
    return checkpoint.look_after


def next_poll_ms(
    spec: LakeTableSpec,
    ingest: Ingest,
    status: IngestStatus | None,
    checkpoints: Mapping[str, Checkpoint],
    now_ms: int,
) -> int | None:
    """When the source is next looked at; None when never again (a `once` that is done)."""
    checkpoint = newest_of(checkpoints, ingest.name, ingest.renamed_from or "")
    if is_wanted_again(spec, ingest, checkpoint):
        return now_ms
    drained = checkpoint.drained if checkpoint is not None else None
    if ingest.trigger.once and drained is not None and drained >= once_number(spec, ingest):
        return None
    if status is not None and (status.lag_files > 0 or status.unsettled_files > 0):
        return now_ms
    if ingest.trigger.cron is not None:
        return ingest.trigger.cron.next_after(cron_after_ms(status, now_ms))
    if status is None or status.polled_at is None:
        return now_ms
    every = ingest.trigger.every or Duration(ONCE_POLL_MS)
    return status.polled_at.ms + every.ms


def cron_after_ms(status: IngestStatus | None, now_ms: int) -> int:
    """The time after which the first minute of a cron trigger counts."""
    if status is None:
        return now_ms
    since = status.cron_after or status.polled_at
    return now_ms if since is None else since.ms
