"""Reading a table's schema history, as a timeline shows the table.

1. The newest commit that may change the schema gives the version in force: alone, or, where a
   writer without schema evolution made it, by the version before and the columns it wrote.
2. The history file has all others. Without it files of older versions cannot be read rightly.
3. What rows are found, placed and ordered by must have had its name all along: properties of the
   table know these columns by name alone.

None for a table that Hudi's schema on read never changed: its columns are found by name.
Source: Hudi's TableSchemaResolver.getTableInternalSchemaFromCommitMetadata.
"""

from __future__ import annotations

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.commit_note import CommitNote
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.internal_schema import InternalSchema
from tideline.hudi.table.schema_history import SchemaHistory, find_versions
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.hudi.timeline.instant_time import InstantTime


def schema_history(table: HoodieTable, timeline: ActiveTimeline) -> SchemaHistory | None:
    """The versions of the schema, and the one in force at the end of `timeline`.

    Raises UnsupportedTableError naming what stands in the way, CorruptTableError for what cannot be
    read.
    """
    whole = timeline.whole or timeline
    newest = newest_schema(table, timeline)
    latest = newest[1].latest_schema if newest else None
    versions: tuple[InternalSchema, ...] = ()
    if whole.has_schemas:
        versions = table.schemas.remembered(
            whole,
            lambda: find_versions(
                table.store, whole, lambda time: _is_archived(table, whole, time)
            ),
        )
    if not versions:
        if latest is not None:
            raise UnsupportedTableError(
                "the history of the table's schema is missing: no file in .hoodie/.schema is of a "
                "completed commit; with Hudi, alter the table or write to it with "
                "hoodie.schema.on.read.enable=true, which makes a new one",
                table=table.uri,
            )
        return None
    history = SchemaHistory(versions, versions[-1])
    if newest is None and whole.start is not None:
        # What changed the schema last is archived.
        history = SchemaHistory(versions, history.at(whole.start))
    if newest is not None and latest is not None:
        history = SchemaHistory(versions, InternalSchema.parse(latest))
    elif newest is not None and newest[1].schema_json is not None:
        history = _taken_up(table, history, *newest)
    _require_settled(table, history)
    return history


def newest_schema(
    table: HoodieTable, timeline: ActiveTimeline
) -> tuple[Instant, CommitNote] | None:
    """The newest commit that says the columns; one of a service only where there is no other."""
    of_service = None
    for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
        note = table.commits.note(instant)
        if note.schema_json is None and note.latest_schema is None:
            continue
        if not note.is_service:
            return instant, note
        if note.latest_schema is not None:
            of_service = of_service or (instant, note)
    return of_service


def _taken_up(
    table: HoodieTable, history: SchemaHistory, instant: Instant, note: CommitNote
) -> SchemaHistory:
    """The version in force after a commit that does not say one: by name from the one before."""
    # Resolving columns needs Arrow; commits that move no rows do not come here with a plain table.
    from tideline.hudi.table.schema_resolver import read_schema_json

    assert note.schema_json is not None
    before = SchemaHistory(history.versions, history.at(instant.time))
    return before.reading(read_schema_json(note.schema_json, table.config), instant.time)


def _is_archived(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> bool:
    return timeline.has_archive and table.commits.is_archived(time)


def _require_settled(table: HoodieTable, history: SchemaHistory) -> None:
    config = table.config
    if config.drop_partition_columns:
        raise UnsupportedTableError(
            "a table with a schema history whose files leave the partition columns out is not "
            "supported",
            table=table.uri,
        )
    fields = {
        "record key": config.record_key_fields,
        "partition": config.partition_fields,
        "ordering": config.ordering_fields,
    }
    for role, names in fields.items():
        name = history.unsettled(names)
        if name is not None:
            raise UnsupportedTableError(
                f"{role} column {name} was renamed, dropped or added again, but the table's "
                "properties refer to it by name; rename it back with Hudi",
                table=table.uri,
                value=name,
            )
