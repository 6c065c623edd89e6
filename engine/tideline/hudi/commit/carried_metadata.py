"""What every commit carries on from the one before: the checkpoints of ingests, and the global
index that the table declares.

1. The commits are asked newest first, in the order in which they completed: each was made under the
   table lock, so the last one knew all before it.
2. One that carries something ends the search, and so does one that says that there was nothing.
3. Where no active commit says either, all of them another engine's, the archive is asked.

In tables without completion times the order is that of requests. There a commit may have completed
before an older one that carries something, so none says that there was nothing.

`ALTER TABLE ... RENAME TO` of Spark SQL rewrites hoodie.properties with what Hudi itself lists.
A declared global index is gone then, and rows whose partition changes would be stored twice.
Nothing else takes one away without declaring another, so a commit that finds it missing sets it
again and gives way. Buckets are known by their files.
Source: Hudi's AlterHoodieTableRenameCommand, HoodieTableMetaClient.TableBuilder.fromProperties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tideline.errors import ConflictError
from tideline.hudi.index.uniqueness import declared_index
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import INDEX_TYPE
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried import read_carried
from tideline.hudi.timeline.carried_value import CARRIED_PREFIX
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant

CARRIES = "tideline.carries"
"""Entry of a commit which looked for carried values and found none before it, nor brought any."""
NOTHING = "nothing"
_OURS = "tideline."


def carried_metadata(
    table: HoodieTable, timeline: ActiveTimeline, own: Iterable[str] = ()
) -> dict[str, str]:
    """Ingest checkpoints of the newest commit that has any, archived ones last, and the index.

    Every commit carries them on, because archiving may take the one that wrote them. `own` are the
    names of what the commit brings itself. Call under the table lock: what the archive says is
    remembered for the next writer. Raises ConflictError when the declared index had gone from the
    properties: it is there again, and whatever was written may have gone by another.
    """
    index = declared_index(table.config)
    kept = {INDEX_TYPE: index.value} if index is not None and index.is_global else {}
    return {**kept, **_checkpoints(table, timeline, own)}


def _checkpoints(
    table: HoodieTable, timeline: ActiveTimeline, own: Iterable[str]
) -> dict[str, str]:
    has_order = table.timelines.layout.has_completion_times
    for instant in _newest_first(timeline):
        extra = table.commits.read(instant).extra_metadata
        _require_index(table, extra)
        found = _of_ingests(extra)
        if found:
            return found
        if has_order and extra.get(CARRIES) == NOTHING:
            break
    else:
        if timeline.has_archive:
            known = read_carried(table.commits.archive(), _OURS, remembers=True)
            _require_index(table, known)
            found = _of_ingests(known)
            if found:
                return found
    brings = any(key.startswith(CARRIED_PREFIX) for key in own)
    return {CARRIES: NOTHING} if has_order and not brings else {}


def _of_ingests(extra: Mapping[str, str]) -> dict[str, str]:
    return {key: extra[key] for key in extra if key.startswith(CARRIED_PREFIX)}


def _require_index(table: HoodieTable, extra: Mapping[str, str]) -> None:
    said = extra.get(INDEX_TYPE)
    if said is None or table.config.index_type is not None:
        return
    table.properties.update({INDEX_TYPE: said})
    raise ConflictError(
        f"hoodie.properties had lost {INDEX_TYPE}={said}, as after ALTER TABLE ... RENAME TO of "
        "Spark SQL; it is set again: write again. Declare and publish again what else was lost",
        table=table.uri,
        value=said,
    )


def _newest_first(timeline: ActiveTimeline) -> list[Instant]:
    completed = timeline.of(*COMMIT_ACTIONS).completed().instants
    return sorted(
        completed, key=lambda instant: (instant.completed_at or instant.time, instant), reverse=True
    )
