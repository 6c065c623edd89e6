"""Writing and serving a Hudi table by the words of other libraries.

Each is `LakeTable.write` or `LakeTable.run` with what it says already chosen: docs/coming-from.md
has them side by side. They raise what these raise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tideline.commit_report import CommitReport
from tideline.errors import TidelineError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.write.table_writer import TableWriter
from tideline.services.run import ServiceRun
from tideline.wording import counted
from tideline.writable_table import Options, WritableTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tideline.formats.row_dataset import RowDataset

_FILES_LOOKED_AT = 32
"""By what prints a table: the footer of each says how many rows it has."""


class TableWords(WritableTable):
    """The words; `LakeTable` has what they come down to."""

    hoodie_table: HoodieTable
    writer: TableWriter

    @abstractmethod
    def run(
        self, service: str, *, options: Options = None, spark: SparkSession | None = None
    ) -> ServiceRun: ...

    def __repr__(self) -> str:
        return _description(self.hoodie_table)

    @property
    def name(self) -> str:
        """The table's name, in its properties."""
        return self.hoodie_table.config.name

    @property
    def version(self) -> int:
        """The version of the table's format: 6, 8 or 9. Of its commits, `history` tells."""
        return self.hoodie_table.config.version

    @property
    def latest_commit(self) -> Instant | None:
        """The newest completed write; None before the first."""
        return self.hoodie_table.timeline().writes().completed().last()

    def to_pyarrow_dataset(self, as_of: Any = None, *, meta: bool = False) -> RowDataset:
        """The rows of this moment, or as of a time, as a pyarrow Dataset; with Hudi's own columns
        if `meta`. It does not change when the table does. Raises as `LakeTable.snapshot`."""
        from tideline.hudi.read.scan_dataset import scan_dataset
        from tideline.hudi.read.snapshot import plan_snapshot
        from tideline.hudi.table.meta_column import shown_names

        scan = plan_snapshot(self.hoodie_table, as_of)
        names = shown_names(scan.schema.names, meta=meta)
        return scan_dataset(self.hoodie_table, scan, names)

    def update(
        self, where: Any, set: Mapping[str, Any], *, options: Options = None
    ) -> CommitReport:
        """Change columns of the rows for which a condition holds, as one commit.

        `set` has a value for each column, or an expression of pyarrow over the row:
        `{"status": "late", "n": pyarrow.compute.field("n") + 1}`. Raises ConfigError for columns of
        the key or the partition path and for values that a merge with the stored row would not
        take, such as a lower ordering value; UnsupportedTableError where a key is twice among
        the rows; ConflictError when other writers were always first: then nothing has changed.
        """
        from tideline.row_update import update_rows

        return update_rows(self.writer, where, set, options)

    def files(self) -> pa.Table:
        """A row for each file group: its newest base file and the logs over it."""
        from tideline.hudi.read.listings import files_table

        return files_table(self.hoodie_table)

    def history(self) -> pa.Table:
        """A row for each instant of the timeline, oldest first, with what commits say they did."""
        from tideline.hudi.read.listings import history_table

        return history_table(self.hoodie_table)

    def partitions(self) -> pa.Table:
        """A row for each partition that has files, with their number and size."""
        from tideline.hudi.read.listings import partitions_table

        return partitions_table(self.hoodie_table)

    def compact(self, *, options: Options = None, spark: SparkSession | None = None) -> ServiceRun:
        """Merge logs into base files, where that is due: `run("compaction")`."""
        return self.run("compaction", options=options, spark=spark)

    def cluster(self, *, options: Options = None, spark: SparkSession | None = None) -> ServiceRun:
        """Sort and gather small files, where that is due: `run("clustering")`."""
        return self.run("clustering", options=options, spark=spark)

    def clean(self, *, options: Options = None) -> ServiceRun:
        """Delete file versions that nothing keeps: `run("cleaning")`."""
        return self.run("cleaning", options=options)

    def vacuum(self, *, options: Options = None) -> ServiceRun:
        """`clean`."""
        return self.clean(options=options)

    def optimize(
        self, *, options: Options = None, spark: SparkSession | None = None
    ) -> tuple[ServiceRun, ...]:
        """`compact`, for a merge-on-read table, and `cluster`, each where it is due."""
        is_logged = self.hoodie_table.config.table_type is TableType.MERGE_ON_READ
        compacted = (self.compact(options=options, spark=spark),) if is_logged else ()
        return (*compacted, self.cluster(options=options, spark=spark))


def _description(table: HoodieTable) -> str:
    """Name, type, version, newest commit and how many rows there are, as far as a few looks tell.

    Raises nothing: what cannot be read is left out.
    """
    config = table.config
    parts = [f"{config.name!r}", config.table_type.value, f"version {config.version}"]
    with suppress(TidelineError, ImportError):
        timeline = table.timeline()
        newest = timeline.writes().completed().last()
        if newest is None:
            parts.append("no commit yet")
        else:
            from tideline.hudi.read.row_count import row_count

            parts.append(f"newest commit {newest.time}")
            rows = row_count(table, timeline, files_max=_FILES_LOOKED_AT)
            parts += [] if rows is None else [counted(rows, "row")]
    return f"<LakeTable {', '.join(parts)}, at {table.uri}>"
