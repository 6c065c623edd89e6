"""A small Iceberg table whose data files are lists of numbers, and a reader by the specification.

The metadata is real; a data file holds `[1, 4, 7]` instead of parquet, an equality delete file the
numbers it deletes, a position delete file pairs of path and position. So a simulation can write,
delete and rewrite thousands of times and compare with what the rows must be. Rows are filed by the
parity of their number.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tideline.clock import Clock, SystemClock
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.replacement import RewriteFiles
from tideline.iceberg.commit.snapshot_producer import commit_snapshot, new_snapshot_id
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.field_type import LONG, STRING, NestedField
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_system_table import HINT_PATH, FileSystemTable
from tideline.iceberg.table.table_operations import CommitOutcome
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_model_files import ModelFiles
from tideline.testing.iceberg_row_delta import RowDelta

SCHEMA = Schema(
    0,
    (
        NestedField(1, "number", LONG, required=True),
        NestedField(2, "parity", STRING, required=False),
    ),
)
BY_PARITY = PartitionSpec(0, (PartitionField(2, 1000, "parity", Transform("identity")),))
UNPARTITIONED = PartitionSpec(1)


@dataclass(slots=True)
class IcebergModel:
    """A table in memory. Writers go through the plain store unless they are given another."""

    location: StoreLocation
    clock: Clock = field(default_factory=FakeClock)

    @classmethod
    def create(
        cls, *, format_version: int = 2, properties: Mapping[str, str] | None = None
    ) -> IcebergModel:
        """An empty table of its own, with the specs `BY_PARITY` and `UNPARTITIONED`."""
        model = cls(StoreLocation.of(f"memory://{uuid.uuid4().hex}/table"))
        store = model.location.open()
        body = _empty(model.location.uri, format_version, properties or {}).to_bytes()
        store.put("metadata/v1.metadata.json", body)
        store.put(HINT_PATH, b"1")
        return model

    @classmethod
    def create_in(cls, folder: str, appends: int = 0) -> IcebergModel:
        """A table in a folder of this machine, with so many appends of two rows."""
        model = cls(StoreLocation.of(f"file://{folder}"), SystemClock())
        cls.create()._copy_to(model)
        for number in range(appends):
            model.append(range(number * 2, number * 2 + 2))
        return model

    def copy(self) -> IcebergModel:
        """The same table once more, with objects of its own, moved as it were."""
        twin = IcebergModel(StoreLocation.of(f"memory://{uuid.uuid4().hex}/table"))
        self._copy_to(twin)
        return twin

    def _copy_to(self, twin: IcebergModel) -> None:
        source, target = self.location.open(), twin.location.open()
        for info in source.list():
            target.put(info.path, source.get(info.path))

    def operations(self, store: ObjectStore | None = None) -> FileSystemTable:
        """The table, seen through `store`."""
        return FileSystemTable(self.location, store=store, clock=self.clock)

    def metadata(self) -> TableMetadata:
        """The newest metadata."""
        return self.operations().load().metadata

    def files(self, branch: str = MAIN, store: ObjectStore | None = None) -> ModelFiles:
        """The live files of a branch."""
        operations = self.operations(store)
        return ModelFiles.of(operations.io, operations.load().metadata, branch)

    def rows(self, branch: str = MAIN) -> list[int]:
        """What a reader sees, sorted; duplicates stay visible."""
        files = self.files(branch)
        return sorted(row for entry in files.data() for row in files.visible_rows(entry))

    def append(
        self, numbers: Iterable[int], store: ObjectStore | None = None, *, spec_id: int = 0
    ) -> CommitOutcome:
        """Add rows, one file per partition."""
        operations = self.operations(store)
        files = ModelFiles.of(operations.io, operations.load().metadata)
        return self._commit(operations, RowDelta("append", files.write_rows(numbers, spec_id)))

    def append_and_delete(
        self, numbers: Iterable[int], deleted: Iterable[int], store: ObjectStore | None = None
    ) -> CommitOutcome:
        """Add rows and delete some of them by position in the same commit."""
        operations = self.operations(store)
        files = ModelFiles.of(operations.io, operations.load().metadata)
        added = files.write_rows(numbers, 0)
        gone = files.write_positions_of(added, frozenset(deleted))
        return self._commit(operations, RowDelta("overwrite", [*added, *gone]))

    def upsert(self, numbers: Iterable[int], store: ObjectStore | None = None) -> CommitOutcome:
        """Delete rows by value and add them again in one commit, as streaming writers do."""
        listed = list(numbers)
        operations = self.operations(store)
        files = ModelFiles.of(operations.io, operations.load().metadata)
        added = [*files.write_values(listed, 0), *files.write_rows(listed, 0)]
        return self._commit(operations, RowDelta("overwrite", added))

    def overwrite(self, numbers: Iterable[int], store: ObjectStore | None = None) -> CommitOutcome:
        """Delete rows by replacing their files, as copy-on-write does; void when one is gone."""
        operations = self.operations(store)
        files = ModelFiles.of(operations.io, operations.load().metadata)
        removed, added = files.without(frozenset(numbers))
        return self._commit(operations, RowDelta("overwrite", added, removed))

    def delete_by_value(
        self, numbers: Iterable[int], store: ObjectStore | None = None, *, spec_id: int = 0
    ) -> CommitOutcome:
        """Delete rows with equality delete files, as streaming writers do."""
        operations = self.operations(store)
        files = ModelFiles.of(operations.io, operations.load().metadata)
        return self._commit(operations, RowDelta("delete", files.write_values(numbers, spec_id)))

    def delete_by_position(
        self, numbers: Iterable[int], store: ObjectStore | None = None, *, names_file: bool = True
    ) -> CommitOutcome:
        """Delete rows where they are: position delete files, or vectors from version 3 on.

        Void when a data file it deletes from has been removed. Without `names_file` the manifest
        does not say which data file it is.
        """
        operations = self.operations(store)
        files = ModelFiles.of(operations.io, operations.load().metadata)
        removed, added, required = files.write_positions(frozenset(numbers), names_file=names_file)
        return self._commit(operations, RowDelta("delete", added, removed, required))

    def plan_rewrite(
        self,
        paths: Iterable[str] | None = None,
        store: ObjectStore | None = None,
        *,
        keeps_sequence_number: bool = True,
    ) -> RewriteFiles:
        """Read data files (all by default) and rewrite their rows, one file per partition."""
        files = self.files(store=store)
        head = files.metadata.snapshot()
        assert head is not None
        wanted = None if paths is None else frozenset(paths)
        removed: list[DataFile] = []
        rows: dict[int, list[int]] = {}
        for entry in files.data():
            if wanted is None or entry.data_file.file_path in wanted:
                removed.append(entry.data_file)
                rows.setdefault(entry.data_file.spec_id, []).extend(files.visible_rows(entry))
        added = [
            write_row
            for spec_id, listed in rows.items()
            for write_row in files.write_rows(listed, spec_id)
        ]
        number = head.sequence_number if keeps_sequence_number else None
        return RewriteFiles(head.snapshot_id, tuple(removed), tuple(added), sequence_number=number)

    def unreferenced(self) -> set[str]:
        """Metadata objects (paths below the table) that neither a snapshot nor the log names."""
        operations = self.operations()
        loaded = operations.load()
        used = {loaded.metadata_location, f"{loaded.metadata.location}/{HINT_PATH}"}
        used.update(entry.metadata_file for entry in loaded.metadata.metadata_log)
        for snapshot in loaded.metadata.snapshots:
            used.add(snapshot.manifest_list or "")
            used.update(
                manifest_file.path for manifest_file in manifests_of(operations.io, snapshot)
            )
        below = {location.removeprefix(f"{loaded.metadata.location}/") for location in used}
        return {info.path for info in self.location.open().list("metadata")} - below

    def _commit(self, operations: FileSystemTable, change: RowDelta) -> CommitOutcome:
        writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
        change.bind(operations.io, writer)
        return commit_snapshot(operations, change, writer, clock=self.clock)


def _empty(location: str, format_version: int, properties: Mapping[str, str]) -> TableMetadata:
    return TableMetadata(
        format_version=format_version,
        table_uuid=str(uuid.uuid4()),
        location=location,
        last_sequence_number=0,
        last_updated_ms=0,
        last_column_id=2,
        schemas=(SCHEMA,),
        current_schema_id=0,
        partition_specs=(BY_PARITY, UNPARTITIONED),
        default_spec_id=0,
        last_partition_id=1000,
        sort_orders=(SortOrder(),),
        default_sort_order_id=0,
        properties=properties,
        snapshots=(),
        current_snapshot_id=None,
        refs={},
        snapshot_log=(),
        metadata_log=(),
        next_row_id=0 if format_version > 2 else None,
    )
