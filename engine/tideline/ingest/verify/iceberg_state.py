"""An Iceberg table at one moment: the newest snapshot of main, and those that it came from.

1. A commit is called by its sequence number, and by its place among the others in version 1, which
   has none.
2. In snapshots of version 3 rows say what commit they are of. Those of before do not: data files
   were rewritten together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tideline.errors import ConfigError
from tideline.hudi.timeline.carried_value import carried_key, generation
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.table_rows import missing_files_named
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.write.changed_files import rows_of_files
from tideline.ingest.execute.iceberg_table import NAMES_KEPT_MAX, IcebergIngestTable
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.iceberg_checkpoints import iceberg_checkpoints
from tideline.ingest.verify.iceberg_rows import IcebergRows
from tideline.ingest.verify.keyed_rows import KeyedRows


@dataclass(frozen=True)
class IcebergState:
    """See `TableState`."""

    table: IcebergIngestTable
    metadata: TableMetadata
    checkpoints: Mapping[str, Checkpoint]
    names_kept_max: int = NAMES_KEPT_MAX

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> IcebergState:
        """See `read_state`."""
        table = IcebergIngestTable.open(operations[0])
        if table.lake is None:
            raise ConfigError("there is no table yet", table=table.uri)
        metadata = table.lake.metadata
        known, found = iceberg_checkpoints(metadata), {}
        for work in (operation.ingest for operation in operations):
            checkpoint = newest_of(known, work.name, work.former_name)
            if checkpoint is not None:
                found[work.name] = checkpoint
        return cls(table, metadata, found)

    @property
    def uri(self) -> str:
        return self.metadata.location

    @property
    def newest(self) -> str:
        head = self.metadata.ref_snapshot()
        return "" if head is None else str(head.snapshot_id)

    def keyed(self, operation: Operation) -> KeyedRows:
        return IcebergRows.of(self.metadata, operation, self._names)

    def rows(self, keyed: KeyedRows) -> Iterator[pa.Table]:
        assert isinstance(keyed, IcebergRows) and self.table.lake is not None
        io, metadata = self.table.lake.table.io, self.metadata
        with missing_files_named(io):
            tasks = plan_files(io, metadata, metadata.ref_snapshot())
            for batch in rows_of_files(io, RowLayout.of(metadata), tasks):
                yield keyed.of_table(batch)

    def commits(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for number, snapshot in reversed(list(enumerate(self._ancestors))):
            yield _name(number, snapshot), self._whole(snapshot.summary)

    def archived_commits(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        return iter(())

    @cached_property
    def _ancestors(self) -> tuple[Snapshot, ...]:
        """The oldest first."""
        head = self.metadata.ref_snapshot()
        found = self.metadata.ancestors(None if head is None else head.snapshot_id)
        return tuple(reversed(tuple(found)))

    @property
    def _names(self) -> Mapping[int, str]:
        """The names of commits whose rows say their sequence number."""
        return {
            snapshot.sequence_number: _name(number, snapshot)
            for number, snapshot in enumerate(self._ancestors)
            if snapshot.first_row_id is not None
        }

    def _whole(self, summary: Mapping[str, str]) -> Mapping[str, str]:
        """A summary with checkpoints that were too large for it, as far as they are kept."""
        found = dict(summary)
        for name, checkpoint in self.checkpoints.items():
            key = carried_key(name)
            if key not in found or "version" in found[key]:
                continue
            if generation(found[key]) == checkpoint.generation:
                found[key] = checkpoint.encode()
            else:
                del found[key]
        return found


def _name(number: int, snapshot: Snapshot) -> str:
    if snapshot.sequence_number:
        return f"{snapshot.sequence_number:012d}-{snapshot.snapshot_id}"
    return f"{0:012d}-{number:06d}-{snapshot.snapshot_id}"
