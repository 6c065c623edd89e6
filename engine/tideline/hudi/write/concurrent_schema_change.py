"""Writers that change a table's schema concurrently.

A batch is prepared for the schema the table had then; another writer may add a column before this
one starts, or while it writes.

1. Before it started: a file this write rewrites may hold the new column, and rewriting would drop
   it. So a write whose columns are not the table's present ones must not continue.
2. While it wrote: the conflict check has seen that the file groups are different ones. The commit
   then says both schemas in one, or the newer commit would make the table forget the column. The
   newer commit is the one with the later instant, even if it completed first; so a change of ours
   that such a commit would hide has to be written again.

Commits that move no rows carry the schema they found; those compare texts and need no Arrow.
Source: Hudi's ConcurrentSchemaEvolutionTableSchemaGetter, SimpleSchemaConflictResolutionStrategy.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tideline.errors import InvalidDataError
from tideline.hudi.table.missing_columns import MissingColumns

if TYPE_CHECKING:
    import pyarrow as pa


def is_current(table_schema: pa.Schema | None, written: pa.Schema) -> bool:
    """Whether rows of the columns `written` keep every column of the table, in its type."""
    from tideline.hudi.table.column_type import stored_type
    from tideline.hudi.table.schema import evolve

    if table_schema is None:
        return True
    try:
        evolved = evolve(table_schema, written).schema
        types = {
            field.name: stored_type(field.type, field.name, keep_millis=True) for field in written
        }
    except InvalidDataError:
        return False
    return _types(evolved) == types


def agree_on_schema(before: str | None, now: str | None, mine: str, *, table: str) -> str:
    """The Avro JSON a commit says, where `mine` is that of its rows.

    `before` and `now` are the table's at the start of the write and at its end. Raises
    InvalidDataError when both writers changed the same column differently.
    """
    if now is None or now in (before, mine):
        return mine
    if not mine:
        return now
    from tideline.hudi.table.schema import arrow_to_avro, evolve, record_name

    ours, theirs = _columns(mine), _columns(now)
    if _types(ours) == _types(theirs):
        return mine
    both = evolve(theirs, ours, missing=MissingColumns.NULL).schema
    name, namespace = record_name(table)
    return json.dumps(arrow_to_avro(both, name=name, namespace=namespace))


def hides(newest: str | None, ours: str) -> bool:
    """Whether a table whose newest commit says `newest` shows less than the columns of `ours`."""
    if newest is None or newest == ours:
        return False
    return _types(_columns(newest)) != _types(_columns(ours))


def _columns(schema_json: str) -> pa.Schema:
    from tideline.hudi.table.schema import avro_to_arrow, without_meta_fields

    return without_meta_fields(avro_to_arrow(schema_json))


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}
