"""The rows of one write, and which engine writes them.

1. Rows in memory here (pyarrow, pandas, Arrow streams) are written by this process, unless the
   table or their size needs Spark.
2. A Spark DataFrame whose rows are few enough is computed once. This process writes them as well,
   or has executors write them, to each task just its own.
3. Everything else goes through Spark's shuffles and tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import WriteDone, WriteRequest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from tideline.hudi.write.work_parts import PartRunner
    from tideline.spark.read.frames import FoundRows


@dataclass(slots=True)
class RowBatch:
    """Rows for one write: those `held` in memory, else those of the `frame`.

    With `find` they are what a condition matches, read again for each attempt: by this process
    where it can answer `where`, else by Spark.
    """

    table: HoodieTable
    operation: WriteOperation
    config: WriteConfig
    held: pa.Table | None = None
    frame: DataFrame | None = None
    find: Callable[[], FoundRows] | None = None
    where: str | None = None
    _is_looked_at: bool = False

    @classmethod
    def of(
        cls, rows: Any, table: HoodieTable, operation: WriteOperation, config: WriteConfig
    ) -> RowBatch:
        """The batch, with nothing computed yet.

        Raises ConfigError for what has no rows, InvalidDataError for a column that is there twice
        and for values that have no common type.
        """
        from tideline.formats.frame_rows import no_rows
        from tideline.in_process.dict_rows import dict_rows
        from tideline.in_process.run import arrow_table, why_spark

        found = arrow_table(rows)
        if found is None and isinstance(rows, (list, tuple)):
            found = dict_rows(rows, table.schemas.newest(table.timeline()))
        if found is not None:
            reason = why_spark(found.nbytes, table, config, zone=running_zone())
            if reason is None:
                return cls(table, operation, config, held=found)
            from tideline.spark.arrow_frame import arrow_frame

            return cls(table, operation, config, frame=arrow_frame(found, table.location))
        if not hasattr(rows, "sparkSession"):
            raise no_rows(rows, table.uri)
        return cls(table, operation, config, frame=rows)

    @classmethod
    def matching(
        cls,
        where: str | Column,
        table: HoodieTable,
        config: WriteConfig,
        spark: SparkSession | None,
    ) -> RowBatch:
        """The rows of the table for which a condition holds, to be deleted; found by Spark where a
        session is given."""

        def find() -> FoundRows:
            from tideline.spark.read.frames import find_rows

            return find_rows(spark, table, where)

        text = where if spark is None and isinstance(where, str) else None
        return cls(table, WriteOperation.DELETE, config, find=find, where=text)

    @property
    def spark(self) -> SparkSession | None:
        """The session that the rows come from."""
        return None if self.frame is None else self.frame.sparkSession

    def partitions_to_delete(self) -> tuple[str, ...]:
        """The partition paths of the rows. Raises ConfigError for an unpartitioned table."""
        if self.frame is not None:
            from tideline.spark.write.run import partitions_to_delete as partitions_of_frame

            return partitions_of_frame(self.frame, self.table)
        from tideline.in_process.run import partitions_to_delete

        return partitions_to_delete(self.held, self.table)

    def write(self, writer: TableWriter, request: WriteRequest) -> WriteDone:
        """Write the rows as one commit, several times over while others are faster.

        Raises as `LakeTable.write`.
        """
        return writer.write_with_retries(self._open_engine, request)

    def _open_engine(self) -> WriteEngine:
        if self.find is not None:
            return self._open_matched_here() or self._open_matched_engine(self.find())
        if self.held is None and not self._is_looked_at:
            self.held, self._is_looked_at = self._held_rows(), True
        if self.held is not None:
            from tideline.in_process.run import open_engine as open_in_process

            return open_in_process(
                self.held, self.table, self.operation, self.config, runner=self._runner()
            )
        from tideline.spark.write.run import open_engine as open_on_spark

        assert self.frame is not None, "a batch that is not held is a frame"
        return open_on_spark(self.frame, self.table, self.operation, self.config)

    def _open_matched_here(self) -> WriteEngine | None:
        """Without Spark; None where the condition, or the write, needs it."""
        from tideline.hudi.read.matching_rows import matching_rows
        from tideline.in_process.run import BATCH_BYTES_MAX, is_utc, open_matched_engine, why_spark

        zone = running_zone()
        # Spark reads a time without a zone in that of its session.
        if self.where is None or not is_utc(zone):
            return None
        if why_spark(0, self.table, self.config, zone=zone) is not None:
            return None
        found = matching_rows(self.table, self.where, BATCH_BYTES_MAX)
        if found is None:
            return None
        self.frame, self.held = None, found.rows
        seen = TransactionStart.of(found.timeline)
        return open_matched_engine(found.rows, self.table, self.config, seen, found.groups)

    def _open_matched_engine(self, found: FoundRows) -> WriteEngine:
        self.frame, self.held = found.frame, None
        seen = TransactionStart.of(found.timeline)
        held = self._held_rows()
        if held is not None:
            from tideline.in_process.run import open_matched_engine as open_in_process

            groups = found.groups()
            return open_in_process(
                held, self.table, self.config, seen, groups, runner=self._runner()
            )
        from tideline.spark.write.run import open_matched_engine as open_on_spark

        return open_on_spark(found.frame, self.table, self.config, seen, found.groups)

    def _runner(self) -> PartRunner | None:
        if self.frame is None:
            return None
        from tideline.spark.write.held_rows import part_runner

        return part_runner(self.frame.sparkSession, self.table)

    def _held_rows(self) -> pa.Table | None:
        """The frame's rows in memory, if they fit there and the write does not need Spark."""
        from tideline.in_process.run import BATCH_BYTES_MAX, why_spark
        from tideline.spark.session.spark_session import session_zone
        from tideline.spark.write.held_rows import held_rows

        assert self.frame is not None, "a batch that is not held is a frame"
        if self.config.bulk_insert_tasks:
            return None
        zone = session_zone(self.frame.sparkSession)
        if why_spark(0, self.table, self.config, zone=zone) is not None:
            return None
        has_stored_keys = self.find is not None and self.table.config.populate_meta_fields
        return held_rows(
            self.frame,
            self.table,
            self.operation,
            BATCH_BYTES_MAX,
            has_stored_keys=has_stored_keys,
        )


def running_zone() -> str | None:
    """The zone of the Spark session that the program runs, in which it may have written before;
    None without any."""
    if "pyspark.sql" not in sys.modules:
        return None
    from tideline.spark.session.spark_session import running_session, session_zone

    running = running_session()
    return None if running is None else session_zone(running)
