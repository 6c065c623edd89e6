"""Carrying a table's schema history on in each commit, as Hudi's writers do.

A commit says the version of the schema that its files are written as (`latest_schema`), and puts
the whole history next to the timeline: Hudi reads it from the newest commit that is not archived.
Files use the version in force at their instant, so the version must be the same when a write begins
and when it commits; else it has to be made again.

Died after the history file, before the commit: a file of an instant that never completes, which no
process reads. Files of archived instants are removed once a newer one counts, one that a restore to
any savepoint leaves in force.
Source: Hudi's BaseHoodieWriteClient.saveInternalSchema, FileBasedInternalSchemaStorageManager.
"""

from __future__ import annotations

from tideline.errors import ConflictError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.internal_schema import LATEST_SCHEMA_KEY, SCHEMA_DIRECTORY, print_history
from tideline.hudi.table.schema_history import SchemaHistory, history_files
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime


def unchanged_history(
    table: HoodieTable,
    schemas: ActiveTimeline,
    begun_with: SchemaHistory | None,
    instant: InstantTime,
) -> SchemaHistory | None:
    """The history at the end of `schemas`.

    Raises ConflictError when another version is in force.
    """
    now = schema_history(table, schemas)
    if (now and now.read_as) != (begun_with and begun_with.read_as):
        raise ConflictError(
            "another writer changed the table's schema; write again",
            table=table.uri,
            instant=instant,
            value=now and now.read_as.version,
        )
    return now


def history_after(
    table: HoodieTable, history: SchemaHistory, instant: InstantTime, schema_json: str
) -> SchemaHistory:
    """The history with what the rows of `instant`, of the Avro schema `schema_json`, change."""
    # Needs Arrow, which commits that move no rows do without.
    from tideline.hudi.table.schema_resolver import read_schema_json

    return history.reading(read_schema_json(schema_json, table.config), instant)


def save_history(
    table: HoodieTable, timeline: ActiveTimeline, instant: InstantTime, history: SchemaHistory
) -> dict[str, str]:
    """Put the history file of a commit; its extra metadata. Call under the lock, before it."""
    path = f"{SCHEMA_DIRECTORY}/{instant}.{Action.SCHEMACOMMIT}"
    table.store.put(path, print_history(history.all_versions()))
    _remove_archived(table, timeline)
    return {LATEST_SCHEMA_KEY: history.read_as.to_json()}


def _remove_archived(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Remove history files of archived instants, where one of an active commit counts.

    A restore takes away what is newer than its savepoint, so that one has to be as old as it.
    """
    files = history_files(table.store)
    completed = {item.time for item in timeline.completed()}
    start, kept = timeline.start, timeline.savepointed_times()
    active = [time for time in files if start is not None and start <= time and time in completed]
    if start is None or not active or any(min(active) > savepoint for savepoint in kept):
        return
    old = frozenset(path for time, path in files.items() if time < start)
    table.files.delete_scope("removing old schema files", control=old).remove_many(old)
