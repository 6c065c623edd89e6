"""New delete files for rows that stay where they are (merge-on-read): position delete files in
version 2, a deletion vector for each data file since version 3.

1. A data file has one vector at most: it takes over what older ones, and position delete files,
   delete of that file, and the old vector goes.
2. Position delete files come beside those that are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tideline.iceberg.commit.file_identity import PartitionKey, partition_key
from tideline.iceberg.commit.replacement import AddedDelete
from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.deletion_vector_writer import write_deletion_vectors
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.position_delete_writer import GRANULARITY_PROPERTY, PositionDeleteWriter
from tideline.iceberg.data.position_deletes import merged
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import (
    DELETE_TARGET_SIZE,
    DELETE_TARGET_SIZE_BYTES,
    whole_property,
)
from tideline.iceberg.scan.delete_index import referenced_data_file
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.changed_files import ChangedFile

_VECTORS_SINCE = 3
_POSITION_BYTES = 4.0


@dataclass(slots=True)
class NewDeletes:
    """The delete files of one write, and those that they make needless."""

    io: FileIO
    metadata: TableMetadata
    written: list[DataFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)

    @property
    def added(self) -> tuple[AddedDelete, ...]:
        """The files for the commit."""
        return tuple(map(AddedDelete, self.written))

    def add(self, changed: Iterable[ChangedFile]) -> None:
        """Delete the selected rows of some files. Raises CorruptTableError,
        StorageUnavailableError; then none of the files remain."""
        try:
            if self.metadata.format_version < _VECTORS_SINCE:
                self._add_files(changed)
            else:
                self._add_vectors(changed)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove them, as far as the store lets it."""
        remove_quietly(self.io, {file.file_path for file in self.written})
        self.written.clear()

    def _add_vectors(self, changed: Iterable[ChangedFile]) -> None:
        reader = FileRows(self.io, RowLayout.of(self.metadata), any_format=True)
        vectors: list[tuple[DataFile, Positions]] = []
        for file in changed:
            earlier = reader.deleted_positions(file.task)
            vectors.append((file.task.data_file, merged((earlier, file.positions))))
            self.removed += own_deletes(file.task)
        self.written += write_deletion_vectors(self.io, self.metadata, vectors)

    def _add_files(self, changed: Iterable[ChangedFile]) -> None:
        properties = self.metadata.properties
        target_bytes = whole_property(
            properties, DELETE_TARGET_SIZE, DELETE_TARGET_SIZE_BYTES, least=1
        )
        by_file = properties.get(GRANULARITY_PROPERTY, "").lower() == "file"
        by_partition: dict[PartitionKey, list[ChangedFile]] = {}
        for file in changed:
            by_partition.setdefault(partition_key(file.task.data_file), []).append(file)
        for files in by_partition.values():
            place = files[0].task.data_file
            writer = PositionDeleteWriter(
                self.io,
                self.metadata,
                place.spec_id,
                place.partition,
                target_bytes,
                row_bytes=_POSITION_BYTES,
                by_file=by_file,
            )
            try:
                for file in sorted(files, key=lambda deleted: deleted.task.data_file.file_path):
                    self.written += writer.add(file.task.data_file.file_path, file.positions)
                self.written += writer.finish()
            except BaseException as error:
                writer.abandon(error)
                raise


def own_deletes(task: FileScanTask) -> tuple[DataFile, ...]:
    """The delete files that are about this data file alone."""
    path = task.data_file.file_path
    return tuple(
        file
        for file in (*task.position_deletes, task.deletion_vector)
        if file is not None and referenced_data_file(file) == path
    )
