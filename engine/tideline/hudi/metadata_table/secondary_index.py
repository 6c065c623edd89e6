r"""Partitions `secondary_index_<name>`: which record keys have a value of a column.

A record says all in its key: the value, `$`, the record key. Within both `\`, `$` and NUL are
behind a `\`; a NUL alone stands for null. Queries look for the keys with a value, then for the
places of these keys in the record index: without a record a row is not found. So a commit compares
key and value of the rows of the file groups that it touches, before it and after it.

In the second version of the index all records of a value are in one file group, in the first the
whole key decides.

Only columns of texts, whole numbers and booleans are followed. Of other types the writers of Hudi's
have several spellings of one value.

Source: Hudi's SecondaryIndexKeyUtils, SecondaryIndexRecordGenerationUtils, HoodieIndexDefinition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tideline.formats.avro import encode_records
from tideline.hudi.metadata_table.altered_columns import why_values_are_of_others
from tideline.hudi.metadata_table.index_definitions import (
    FIRST_VERSION,
    SECOND_VERSION,
    read_definitions,
)
from tideline.hudi.metadata_table.index_names import FOLLOWED_TYPES
from tideline.hudi.metadata_table.many_records import Records
from tideline.hudi.metadata_table.optional_partition import OptionalPartition
from tideline.hudi.metadata_table.partition import (
    CannotFollow,
    SlicePair,
    StoredRecords,
    StoredSizes,
    TableChange,
    Upkeep,
    WholeTable,
)
from tideline.hudi.metadata_table.record import record_schema_json
from tideline.hudi.metadata_table.record_index import (
    has_global_record_index,
    touched_groups,
    why_not_indexed,
)
from tideline.hudi.metadata_table.touched_slices import (
    keys_of_table,
    slices_after,
    slices_before,
    written_files,
)
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import SECONDARY_INDEX
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

_RECORD = 7
_FIELD = "SecondaryIndexMetadata"
_NULL = "\0"
_SEPARATOR = "$"
_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in ("\\", _SEPARATOR, _NULL)})
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TYPED = 9
"""The table version from which on a secondary index is made in its second version."""
_WITHOUT_CHANGES = ("COMPACT", "LOG_COMPACT", "CLUSTER")


@dataclass(frozen=True, slots=True)
class SecondaryIndexPartition(OptionalPartition):
    """One of them. `column` is None where its definition is not understood; `hashes_value`: a file
    group has all records of a value."""

    name: str
    column: str | None
    hashes_value: bool

    groups_made = 10

    @property
    def file_id_prefix(self) -> str:
        return self.name.replace("_", "-")

    @classmethod
    def defined(cls, name: str, definitions: Mapping[str, Any]) -> SecondaryIndexPartition:
        """The partition of this name, as the definitions of indexes have it."""
        found = definitions.get(name)
        found = found if isinstance(found, Mapping) else {}
        fields = found.get("sourceFields")
        columns = fields if isinstance(fields, list) and len(fields) == 1 else [None]
        column = columns[0] if isinstance(columns[0], str) else None
        return cls(name, column, found.get("version") == SECOND_VERSION)

    def hashed(self, key: str) -> str:
        """What of a key decides on its file group."""
        return value_part(key) if self.hashes_value else key

    def initial(self, whole: WholeTable) -> Records | CannotFollow:
        """One record for each row of the table."""
        column = self._followed(whole.table, whole.timeline, whole.schema_json)
        if isinstance(column, CannotFollow):
            return column
        found = keys_of_table(whole, column)
        if isinstance(found, CannotFollow):
            return found
        return self._runs([keys for _, keys in found], [])

    def definition(self, whole: WholeTable) -> Mapping[str, Any]:  # noqa: ARG002
        return {
            "indexName": self.name,
            "indexType": "secondary_index",
            "indexFunction": "identity",
            "sourceFields": [self.column],
            "indexOptions": {},
            "version": SECOND_VERSION if self.hashes_value else FIRST_VERSION,
        }

    def changes(self, change: TableChange, stored: StoredRecords | None) -> Records | CannotFollow:
        table = change.table
        if self.name not in table.config.metadata_partitions:
            return CannotFollow("the table does not list it")
        schema_json = change.written.schema_json if change.written is not None else None
        schema_json = schema_json or table.schemas.newest_json(change.timeline)
        column = self._followed(table, change.timeline, schema_json)
        if isinstance(column, CannotFollow):
            return column
        written = change.written
        if written is None or stored is None or written.operation_type in _WITHOUT_CHANGES:
            return []
        if change.compare_keys is None:
            return CannotFollow("the rows of its files are not read here")
        before, after = change.once(slices_before, stored), change.once(slices_after, stored)
        touched = (
            FileGroupId(stat.partition_path or "", stat.file_id or "")
            for stat in written_files(change)
        )
        replaced = (group for group in before if group not in after)
        groups = dict.fromkeys((*touched, *replaced))
        pairs = [SlicePair(before.get(group), after.get(group)) for group in groups]
        found = change.compare_keys(change.timeline, change.timeline_after, pairs, column)
        added = [keys.added for keys in found if keys.added is not None]
        removed = [keys.removed for keys in found if keys.removed is not None]
        return self._runs(added, removed)

    def upkeep(self, whole: WholeTable, sizes: StoredSizes) -> Upkeep | CannotFollow:
        column = self._followed(whole.table, whole.timeline, whole.schema_json)
        if isinstance(column, CannotFollow):
            return column
        return Upkeep(
            f"the keys and the values of {column} of {touched_groups(sizes)}",
            "a record for each value that came or went, in "
            f"{counted(sizes.index_file_groups, 'file group')} of the index",
        )

    def _runs(
        self, added: Sequence[pa.Array], removed: Sequence[pa.Array]
    ) -> Records | CannotFollow:
        if not added and not removed:
            return []
        # Processes that write no rows have no Arrow.
        from tideline.hudi.metadata_table.key_runs import KeyRun, KeyRuns

        gone = (KeyRun(keys, None) for keys in removed)
        there = (KeyRun(keys, _datum()) for keys in added)
        runs = KeyRuns((*gone, *there), are_values=self.hashes_value)
        return runs.too_long() or runs

    def _followed(
        self, table: HoodieTable, timeline: ActiveTimeline, schema_json: str | None
    ) -> str | CannotFollow:
        """The column, where every commit can follow its values."""
        if self.column is None:
            return CannotFollow("the definition of the index is not understood")
        if not has_global_record_index(table):
            return CannotFollow("the table has no record index of all keys")
        reason = why_not_indexed(table)
        if reason is not None:
            return CannotFollow(reason)
        if schema_json is not None and not _has_column(schema_json, self.column):
            return CannotFollow(
                f"the table has no column {self.column}: where it was renamed or dropped its index "
                "ends"
            )
        kind = None if schema_json is None else _type_of(schema_json, self.column)
        if kind not in FOLLOWED_TYPES:
            return CannotFollow(
                f"{self.column} is no column of texts, whole numbers or booleans: others have "
                "several spellings of a value"
            )
        reason = why_values_are_of_others(table, timeline, self.column)
        return self.column if reason is None else CannotFollow(reason)


def secondary_indexes(table: HoodieTable) -> tuple[SecondaryIndexPartition, ...]:
    """Those that the table lists and that are kept in its version. Raises CorruptTableError where
    definitions cannot be read."""
    listed = table.config.metadata_partitions
    names = [name for name in listed if name.startswith(SECONDARY_INDEX)]
    names = [name for name in names if table.layout.keeps_partition(name)]
    definitions = read_definitions(table) if names else {}
    return tuple(SecondaryIndexPartition.defined(name, definitions) for name in names)


def new_secondary_index(
    table: HoodieTable, name: str, columns: tuple[str, ...] | None
) -> SecondaryIndexPartition:
    """One that is made: of the one column that is asked for, or that its name ends with."""
    column = columns[0] if columns and len(columns) == 1 else name.removeprefix(SECONDARY_INDEX)
    return SecondaryIndexPartition(name, column, hashes_value=table.layout.table_version >= _TYPED)


def secondary_key(value: str | None, record_key: str) -> str:
    """The key of the record of a row."""
    spelled = _NULL if value is None else value.translate(_ESCAPES)
    return f"{spelled}{_SEPARATOR}{record_key.translate(_ESCAPES)}"


def value_part(key: str) -> str:
    """What a key says of the value, up to the separator and with it."""
    at = 0
    while at < len(key) and key[at] != _SEPARATOR:
        at += 2 if key[at] == "\\" else 1
    return key[: at + 1]


def record_key_in(key: str) -> str:
    """The record key that a key ends with."""
    return _ESCAPED.sub(r"\1", key[len(value_part(key)) :])


@cache
def _datum() -> bytes:
    record = {"key": "", "type": _RECORD, _FIELD: {"isDeleted": False}}
    return encode_records(record_schema_json(), [record])[0]


def _has_column(schema_json: str, column: str) -> bool:
    return any(item.get("name") == column for item in json.loads(schema_json).get("fields") or ())


def _type_of(schema_json: str, column: str) -> str | None:
    """The plain type of a column; None of one that is not there, or has another kind of type."""
    fields = json.loads(schema_json).get("fields") or ()
    found = next((item["type"] for item in fields if item.get("name") == column), None)
    if isinstance(found, list):
        others = [item for item in found if item != "null"]
        found = others[0] if len(others) == 1 else None
    if isinstance(found, Mapping):
        found = None if "logicalType" in found else found.get("type")
    return found if isinstance(found, str) else None
