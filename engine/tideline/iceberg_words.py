"""Reading, looking at and serving an Iceberg table by the words that a Hudi table has as well.

docs/coming-from.md has the words of other libraries side by side, docs/iceberg.md the differences
between tables of both formats.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tideline.clock import Clock
from tideline.formats.column_choice import chosen_columns
from tideline.iceberg.metadata.snapshot import Snapshot, SnapshotRef
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg.table.open_table import IcebergTable
from tideline.readable_table import Columns, one_condition
from tideline.services.run import ServiceRun
from tideline.writable_table import Options, WritableTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tideline.formats.row_dataset import RowDataset
    from tideline.iceberg.read.changes import IcebergChangeFeed


class IcebergWords(WritableTable):
    """The words; `IcebergLakeTable` has what they come down to."""

    table: IcebergTable
    _clock: Clock

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata: ...

    @abstractmethod
    def run(
        self, service: str, *, options: Options = None, spark: SparkSession | None = None
    ) -> ServiceRun: ...

    @property
    def version(self) -> int:
        """The version of the table's format: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The snapshots that the table keeps, oldest first."""
        return tuple(sorted(self.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms))

    @property
    def current_snapshot(self) -> Snapshot | None:
        """What readers of the main branch see; None for a table without rows yet."""
        return self.metadata.snapshot()

    @property
    def refs(self) -> Mapping[str, SnapshotRef]:
        """The branches and tags by name."""
        return self.metadata.refs

    def to_pyarrow_dataset(self, as_of: Any = None) -> RowDataset:
        """The rows of the newest snapshot of this moment as a pyarrow Dataset: what delete files
        delete is left out.

        `as_of` is the id of a snapshot, the name of a branch or tag, or a time (text, date,
        datetime), which means what readers of the main branch saw then. Raises ConfigError for what
        is none of these, a time in the future, and what has expired.
        """
        from tideline.iceberg.read.table_rows import snapshot_dataset

        return snapshot_dataset(self.table.io, self._chosen(as_of))

    def snapshot(
        self,
        spark: SparkSession,
        as_of: Any = None,
        columns: Columns = None,
        where: Any = None,
        *,
        filter: Any = None,
    ) -> DataFrame:
        """The same rows as a Spark DataFrame, whose tasks read the files of this moment as they are
        read here.

        `columns` are all unless given. `where` is a condition as for `scan`, `filter` another name
        of it: files are left out by it, which Spark's own filters of the DataFrame do not.
        Raises ConfigError for columns that are not there and for what is no condition,
        UnsupportedTableError naming a column whose type Spark does not have.
        """
        from tideline.spark.iceberg.read import snapshot_frame

        choice = self._chosen(as_of)
        names = [field.name for field in choice.metadata.schema().fields]
        chosen = chosen_columns(columns, names)
        condition = one_condition(where, filter)
        return snapshot_frame(spark, self.table.io, choice, chosen, condition)

    def files(self, as_of: Any = None) -> pa.Table:
        """A row for each data file, with the delete files that apply to it. `as_of` as for rows."""
        from tideline.iceberg.read.listings import files_table

        return files_table(self.table.io, self._chosen(as_of))

    def partitions(self, as_of: Any = None) -> pa.Table:
        """A row for each partition that has files, with their number, rows and size."""
        from tideline.iceberg.read.listings import partitions_table

        return partitions_table(self.table.io, self._chosen(as_of))

    def history(self) -> pa.Table:
        """A row for each snapshot that the table keeps, oldest first, with what it says it did."""
        from tideline.iceberg.read.listings import history_table

        return history_table(self.table.refresh())

    def changes(self, after: Any = 0, until: Any = None) -> IcebergChangeFeed:
        """What snapshots after `after`, up to `until` or now, did to rows: inserted, updated,
        deleted, with what updated and deleted rows were before, in Arrow, without Spark.

        Each is the id of a snapshot, the name of a branch or tag, or a time; 0 is before the first
        snapshot. Updates are seen where the table has identifier fields, or rows have ids (version
        3). Begin after `.until` the next time. Raises ConfigError naming the earliest snapshot to
        begin after where others have expired.
        """
        from tideline.iceberg.read.change_plan import ChangeRange
        from tideline.iceberg.read.changes import IcebergChangeFeed

        now_ms = self._clock.now_ms()
        changes = ChangeRange.of(self.table.refresh(), after, until, now_ms=now_ms)
        return IcebergChangeFeed.of(self.table.io, changes)

    def compact(self, *, options: Options = None, spark: SparkSession | None = None) -> ServiceRun:
        """Gather small data files and apply deletes, where that is due:
        `run("rewrite_data_files")`."""
        return self.run("rewrite_data_files", options=options, spark=spark)

    def optimize(
        self, *, options: Options = None, spark: SparkSession | None = None
    ) -> tuple[ServiceRun, ...]:
        """`compact`, then rewrite delete files and manifests, each where it is due."""
        services = ("rewrite_position_deletes", "rewrite_manifests")
        after = (self.run(service, options=options, spark=spark) for service in services)
        return (self.compact(options=options, spark=spark), *after)

    def vacuum(self, *, options: Options = None) -> ServiceRun:
        """Expire snapshots that nothing keeps, and delete the files that only they led to:
        `run("expire_snapshots")`."""
        return self.run("expire_snapshots", options=options)

    def _chosen(self, as_of: Any) -> SnapshotChoice:
        metadata = self.table.refresh()
        return SnapshotChoice.of(metadata, as_of, now_ms=self._clock.now_ms())
