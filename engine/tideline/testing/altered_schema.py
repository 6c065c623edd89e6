"""ALTER TABLE as Hudi's schema on read does it, by hand: no JVM, and another's commit at any time.

Source: what Hudi 1.2's AlterTableCommand.commitWithSchema leaves in the timeline.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.internal_schema import (
    LATEST_SCHEMA_KEY,
    InternalField,
    InternalSchema,
    InternalStruct,
    print_history,
)
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.table.schema import arrow_to_avro, record_name, with_meta_fields
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.table.schema_reconciliation import reconciled
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant

Change = Callable[[tuple[InternalField, ...]], tuple[InternalField, ...]]
_ADDED = pa.int64()
_TYPES = {"long": pa.int64(), "double": pa.float64(), "string": pa.string()}
"""Of columns that were retyped."""
NOTHING = InternalSchema(0, -1, InternalStruct(()))


def rename(old: str, new: str) -> Change:
    """A column under a new name."""
    return lambda fields: tuple(
        replace(item, name=new) if item.name == old else item for item in fields
    )


def drop(name: str) -> Change:
    """Without a column."""
    return lambda fields: tuple(item for item in fields if item.name != name)


def retype(name: str, kind: str) -> Change:
    """A column under another type, such as `double`."""
    return lambda fields: tuple(
        replace(item, type=kind) if item.name == name else item for item in fields
    )


def add(name: str, number: int) -> Change:
    """With a column of whole numbers under a new id."""
    return lambda fields: (*fields, InternalField(number, name, "long"))


@dataclass(frozen=True, slots=True)
class Altering:
    """An ALTER that has begun; `complete` makes it visible."""

    table: HoodieTable
    requested: Instant

    def complete(self, change: Change) -> None:
        """Change the columns as they are now."""
        table, instant = self.table, self.requested
        timeline = table.timeline()
        columns = table.schemas.newest(timeline)
        assert columns is not None
        history = schema_history(table, timeline)
        current = history.read_as if history else reconciled(NOTHING, with_meta_fields(columns))
        versions = history.all_versions() if history else (current,)
        root = InternalStruct(change(current.root.fields))
        highest = max(current.max_column_id, *(item.id for item in root.fields))
        altered = InternalSchema(int(instant.time.value), highest, root)
        kept = {item.name for item in root.fields}
        by_id = {item.id: item.name for item in root.fields}
        names = {item.name: by_id.get(item.id) for item in current.root.fields}
        stayed = [item.with_name(names[item.name]) for item in columns if names[item.name] in kept]
        types = {item.name: _TYPES.get(str(item.type)) for item in root.fields}
        stayed = [item.with_type(types[item.name] or item.type) for item in stayed]
        known = {item.name for item in stayed}
        added = [pa.field(item.name, _ADDED) for item in root.fields
                 if item.name not in known and not is_meta_column(item.name)]  # fmt: skip
        schema = pa.schema([*stayed, *added])
        name, namespace = record_name(table.config.name)
        extra = {
            SCHEMA_KEY: json.dumps(arrow_to_avro(schema, name=name, namespace=namespace)),
            LATEST_SCHEMA_KEY: altered.to_json(),
        }
        path = f".hoodie/.schema/{instant.time}.schemacommit"
        table.store.put(path, print_history((*versions, altered)))
        inflight = table.timelines.to_inflight(instant)
        at = table.instants.next_time(timeline) if table.layout.table_version > 6 else None
        body = table.layout.timeline.encode_commit(CommitMetadata({}, "ALTER_SCHEMA", extra))
        table.timelines.complete(inflight, body, at=at)


def begin_altering(table: HoodieTable) -> Altering:
    """Request an ALTER's commit."""
    is_merged = table.config.table_type is TableType.MERGE_ON_READ
    action = Action.DELTACOMMIT if is_merged else Action.COMMIT
    return Altering(table, table.timelines.create_requested(table.instants.next_time(), action))


def alter(table: HoodieTable, change: Change) -> None:
    """One ALTER from begin to end."""
    begin_altering(table).complete(change)


def forget_version(table: HoodieTable) -> None:
    """Make the newest commit one of a writer without schema evolution."""
    newest = table.timeline().of(Action.COMMIT, Action.DELTACOMMIT).completed().last()
    assert newest is not None
    metadata = table.timelines.read_commit(newest)
    extra = {key: text for key, text in metadata.extra_metadata.items() if key == SCHEMA_KEY}
    table.store.put(table.timelines.path(newest), replace(metadata, extra_metadata=extra).encode())
    table.store.delete(f".hoodie/.schema/{newest.time}.schemacommit")
