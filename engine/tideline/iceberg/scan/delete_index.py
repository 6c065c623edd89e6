"""Which deletes apply to a data file (spec, "Scan Planning").

1. A deletion vector applies to the data file it references, and then no position delete file does.
2. A position delete file applies to data files of its own partition and of no later sequence
   number; one that names a single data file, to that one.
3. An equality delete file applies to data files of its own partition, or of all when its spec is
   unpartitioned, if their sequence number is lower.
4. Bounds and null counts can show that a delete file holds nothing for a data file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tideline.errors import CorruptTableError
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent, ManifestEntry
from tideline.iceberg.metadata.field_type import NestedField, parts_of
from tideline.iceberg.metadata.single_value import decode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata

DELETE_PATH_FIELD_ID = 2_147_483_546
"""The column of a position delete file that names the data file (spec, "Reserved Field IDs")."""

_FLOATS = ("float", "double")
_PartitionKey: TypeAlias = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class FileDeletes:
    """What applies to one data file, in the order of sequence numbers."""

    position: tuple[DataFile, ...] = ()
    equality: tuple[DataFile, ...] = ()
    vector: DataFile | None = None


NO_DELETES = FileDeletes()


class DeleteIndex:
    """The live delete files of a snapshot, found by data file.

    Entries need their metrics, else nothing is known of what they hold.
    """

    def __init__(self, entries: Iterable[ManifestEntry], metadata: TableMetadata) -> None:
        """Raises CorruptTableError when two deletion vectors reference one data file."""
        self._table = metadata.location
        self._vectors: dict[str, ManifestEntry] = {}
        self._by_path: dict[str, _Sequenced] = defaultdict(_Sequenced)
        self._by_partition: dict[_PartitionKey, _Sequenced] = defaultdict(_Sequenced)
        self._equality: dict[_PartitionKey, _Sequenced] = defaultdict(_Sequenced)
        self._global_equality = _Sequenced()
        self._fields = _fields_by_id(metadata)
        everywhere = {spec.spec_id for spec in metadata.partition_specs if spec.is_unpartitioned}
        for entry in entries:
            self._add(entry, everywhere)
        for group in (
            *(*self._by_path.values(), *self._by_partition.values()),
            *(*self._equality.values(), self._global_equality),
        ):
            group.arrange()

    @property
    def needs_data_metrics(self) -> bool:
        """Whether metrics of data files can show that a delete does not concern them."""
        return bool(self._equality) or bool(self._global_equality.entries)

    def deletes_for(self, data_file: DataFile, sequence_number: int) -> FileDeletes:
        """What applies to a data file of this sequence number.

        Raises CorruptTableError when a delete names the file but belongs to another partition.
        """
        if not self._has_any:
            return NO_DELETES
        key = _partition_key(data_file)
        equality = self._equality_deletes(data_file, sequence_number, key)
        vector = self._vector(data_file, sequence_number)
        if vector is not None:
            return FileDeletes(equality=equality, vector=vector)
        position = self._position_deletes(data_file, sequence_number, key)
        return FileDeletes(position, equality) if position or equality else NO_DELETES

    @property
    def _has_any(self) -> bool:
        return bool(self._vectors or self._by_path or self._by_partition or self.needs_data_metrics)

    def _add(self, entry: ManifestEntry, everywhere: set[int]) -> None:
        delete = entry.data_file
        if delete.is_deletion_vector:
            self._add_vector(entry)
        elif delete.content is FileContent.EQUALITY_DELETES:
            if delete.spec_id in everywhere:
                self._global_equality.entries.append(entry)
            else:
                self._equality[_partition_key(delete)].entries.append(entry)
        elif (path := referenced_data_file(delete)) is not None:
            self._by_path[path].entries.append(entry)
        else:
            self._by_partition[_partition_key(delete)].entries.append(entry)

    def _add_vector(self, entry: ManifestEntry) -> None:
        path = entry.data_file.referenced_data_file
        if path is None:
            message = "a deletion vector names no data file"
            raise CorruptTableError(message, table=self._table, path=entry.data_file.file_path)
        if path in self._vectors:
            message = "two deletion vectors reference one data file"
            raise CorruptTableError(message, table=self._table, path=path)
        self._vectors[path] = entry

    def _vector(self, data_file: DataFile, sequence_number: int) -> DataFile | None:
        entry = self._vectors.get(data_file.file_path)
        if entry is None:
            return None
        if _sequence_number(entry) < sequence_number:
            message = "a deletion vector is older than the data file it references"
            raise CorruptTableError(message, table=self._table, path=data_file.file_path)
        self._check_partition(entry.data_file, data_file)
        return entry.data_file

    def _position_deletes(
        self, data_file: DataFile, sequence_number: int, key: _PartitionKey
    ) -> tuple[DataFile, ...]:
        found = []
        path = data_file.file_path.encode()
        if (in_partition := self._by_partition.get(key)) is not None:
            found += [
                entry
                for entry in in_partition.from_number(sequence_number)
                if _may_name(entry.data_file, path)
            ]
        if (of_file := self._by_path.get(data_file.file_path)) is not None:
            own = of_file.from_number(sequence_number)
            for entry in own:
                self._check_partition(entry.data_file, data_file)
            found += own
            found.sort(key=_sequence_number)
        return tuple(entry.data_file for entry in found)

    def _equality_deletes(
        self, data_file: DataFile, sequence_number: int, key: _PartitionKey
    ) -> tuple[DataFile, ...]:
        found = self._global_equality.after_number(sequence_number)
        if (in_partition := self._equality.get(key)) is not None:
            found = sorted(
                [*found, *in_partition.after_number(sequence_number)], key=_sequence_number
            )
        return tuple(
            entry.data_file for entry in found if self._may_delete(entry.data_file, data_file)
        )

    def _may_delete(self, delete: DataFile, data_file: DataFile) -> bool:
        for field_id in delete.equality_ids or ():
            column = self._fields.get(field_id)
            if column is None or parts_of(column.type):
                continue
            if _cannot_meet(column, delete, data_file):
                return False
        return True

    def _check_partition(self, delete: DataFile, data_file: DataFile) -> None:
        if _partition_key(delete) != _partition_key(data_file):
            raise CorruptTableError(
                "a delete file and the data file it references lie in different partitions",
                table=self._table,
                path=data_file.file_path,
                value=delete.file_path,
            )


@dataclass(slots=True)
class _Sequenced:
    """Delete files that can be cut at a sequence number."""

    entries: list[ManifestEntry] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def arrange(self) -> None:
        self.entries.sort(key=_sequence_number)
        self.numbers = [_sequence_number(entry) for entry in self.entries]

    def from_number(self, number: int) -> list[ManifestEntry]:
        return self.entries[bisect_left(self.numbers, number) :]

    def after_number(self, number: int) -> list[ManifestEntry]:
        return self.entries[bisect_right(self.numbers, number) :]


def referenced_data_file(delete: DataFile) -> str | None:
    """The one data file whose rows a position delete file or deletion vector deletes, if that is
    known: it says so, or its bounds of paths meet."""
    if delete.content is not FileContent.POSITION_DELETES:
        return None
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file
    lower = (delete.lower_bounds or {}).get(DELETE_PATH_FIELD_ID)
    upper = (delete.upper_bounds or {}).get(DELETE_PATH_FIELD_ID)
    return None if lower is None or lower != upper else bytes(lower).decode()


def _fields_by_id(metadata: TableMetadata) -> Mapping[int, NestedField]:
    """Every column any schema had, as the newest that has it describes it."""
    found: dict[int, NestedField] = {}
    for schema in (*metadata.schemas, metadata.schema()):
        found.update(schema.leaves())
    return found


def _sequence_number(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


def _partition_key(file: DataFile) -> _PartitionKey:
    for value in file.partition:
        if type(value) is float:
            # NaN is a partition like any other, and -0.0 is not 0.0.
            return file.spec_id, tuple(
                struct.pack(">d", item) if type(item) is float else item for item in file.partition
            )
    return file.spec_id, file.partition


def _may_name(delete: DataFile, path: bytes) -> bool:
    lower = (delete.lower_bounds or {}).get(DELETE_PATH_FIELD_ID)
    upper = (delete.upper_bounds or {}).get(DELETE_PATH_FIELD_ID)
    return (lower is None or lower <= path) and (upper is None or path <= upper)


def _cannot_meet(column: NestedField, delete: DataFile, data_file: DataFile) -> bool:
    """Whether no value of this column is in both files."""
    data, deleted = _Nulls.of(data_file, column), _Nulls.of(delete, column)
    if data.some and deleted.some:
        return False
    if (data.only and deleted.none) or (deleted.only and data.none):
        return True
    files = (data_file, delete)
    if str(column.type) in _FLOATS and all(_may_hold_nan(file, column) for file in files):
        return False
    # Writers disagree on the order of UUIDs.
    if str(column.type) == "uuid":
        return False
    (data_lower, data_upper), (delete_lower, delete_upper) = (
        _bounds(file, column) for file in files
    )
    if None in (data_lower, data_upper, delete_lower, delete_upper):
        return False
    return bool(data_lower > delete_upper or delete_lower > data_upper)


def _bounds(file: DataFile, column: NestedField) -> tuple[Any, Any]:
    bodies = (
        (bounds or {}).get(column.field_id) for bounds in (file.lower_bounds, file.upper_bounds)
    )
    lower, upper = (None if body is None else decode_value(column.type, body) for body in bodies)
    return lower, upper


def _may_hold_nan(file: DataFile, column: NestedField) -> bool:
    return (file.nan_value_counts or {}).get(column.field_id) != 0


@dataclass(frozen=True, slots=True)
class _Nulls:
    """What is known of the nulls of a column: there may be some, only nulls, certainly none."""

    some: bool
    only: bool
    none: bool

    @classmethod
    def of(cls, file: DataFile, column: NestedField) -> _Nulls:
        if column.required:
            return cls(some=False, only=False, none=True)
        nulls = (file.null_value_counts or {}).get(column.field_id)
        values = (file.value_counts or {}).get(column.field_id)
        return cls(
            some=nulls is None or nulls > 0,
            only=nulls is not None and nulls == values,
            none=nulls is not None and nulls <= 0,
        )
