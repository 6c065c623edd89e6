"""A write of rows or partitions, and the table services that settings want after it.

1. The options are checked, and say which operation it is and what services follow.
2. One commit: rows through Spark, whole partitions without it.
3. The services run, or are scheduled (`hudi.services.scheduler`); what fails there leaves the
   commit as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tideline.commit_report import CommitReport, report_write
from tideline.errors import ConfigError, FailedAfterCommitError, TidelineError
from tideline.hudi.services.engine import ServiceEngine
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.scheduler import SchedulerConfig, run_after_commit
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.names import one_or_several
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import Requirement, WriteDone, WriteRequest
from tideline.settings.setting import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def write_rows(
    writer: TableWriter,
    rows: Any,
    operation: WriteOperation | str | None,
    options: Mapping[str, str] | None,
    extra_metadata: Mapping[str, str] | None,
    require: Requirement | None,
    token: str | None,
) -> CommitReport:
    """See `LakeTable.write`."""
    given = writer.given(options, Place.WRITE)
    wanted, config = writer.planned(operation, given)
    batch = _batch_of(rows, writer.table, wanted, config)
    if wanted is WriteOperation.DELETE_PARTITION:
        partitions = batch.partitions_to_delete()
        return delete_partitions(writer, partitions, given, extra_metadata, token)
    scheduler = SchedulerConfig.of_table(writer.table.config, given)
    request = writer.request(
        wanted, config, extra_metadata=extra_metadata, require=require, token=token
    )
    report = report_write(batch.write(writer, request))
    return _followed_by_services(report, scheduler, writer, given, batch.spark)


def delete_partitions(
    writer: TableWriter,
    partitions: str | Sequence[str],
    options: Mapping[str, str] | None,
    extra_metadata: Mapping[str, str] | None,
    token: str | None,
) -> CommitReport:
    """See `LakeTable.delete_partitions`."""
    given, names = writer.given(options, Place.WRITE), one_or_several(partitions)
    operation, config = writer.planned(WriteOperation.DELETE_PARTITION, given)
    scheduler = SchedulerConfig.of_table(writer.table.config, given).moving_no_rows()
    request = writer.request(operation, config, extra_metadata=extra_metadata, token=token)
    report = report_write(writer.delete_partitions(request, names))
    return _followed_by_services(report, scheduler, writer, given)


def open_services(
    writer: TableWriter, given: Mapping[str, str], spark: SparkSession | None = None
) -> TableServices:
    """The table's services, with the checked settings `given` over its own.

    Those that move rows run in `spark`, else in a session of their own.
    """
    return TableServices(writer, given, partial(_open_engine, writer.table, spark))


def _followed_by_services(
    report: CommitReport,
    scheduler: SchedulerConfig,
    writer: TableWriter,
    given: Mapping[str, str],
    spark: SparkSession | None = None,
) -> CommitReport:
    """Raises FailedAfterCommitError: the commit took place and is not to be repeated."""
    if report.is_repeat:
        return report
    try:
        done = run_after_commit(open_services(writer, given, spark), scheduler)
    except TidelineError as error:
        raise FailedAfterCommitError(
            "the write is committed, do not repeat it; a service that was to follow it "
            f"failed: {error.message}",
            table=writer.table.location.uri,
            instant=report.instant,
            path=error.path,
            value=error.value,
        ) from error
    return replace(report, services=done)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows to write, and the engine for them: in this process, or with a Spark DataFrame."""

    table: HoodieTable
    rows: pa.Table | None = None
    frame: DataFrame | None = None

    @property
    def spark(self) -> SparkSession | None:
        return None if self.frame is None else self.frame.sparkSession

    def partitions_to_delete(self) -> tuple[str, ...]:
        if self.frame is not None:
            from tideline.spark.write.run import partitions_to_delete as partitions_of_frame

            return partitions_of_frame(self.frame, self.table)
        from tideline.in_process.run import partitions_to_delete

        return partitions_to_delete(self.rows, self.table)

    def write(self, writer: TableWriter, request: WriteRequest) -> WriteDone:
        if self.frame is not None:
            from tideline.spark.write.run import write_frame

            return write_frame(self.frame, writer, request)
        from tideline.in_process.run import write_rows

        return write_rows(self.rows, writer, request)


def _batch_of(
    rows: Any, table: HoodieTable, operation: WriteOperation, config: WriteConfig
) -> _Batch:
    from tideline.in_process.run import arrow_table, why_spark

    found = arrow_table(rows)
    if found is None:
        if not hasattr(rows, "sparkSession"):
            raise ConfigError(
                "rows are written from a Spark DataFrame, pyarrow, pandas or an Arrow stream",
                table=table.uri,
                value=type(rows).__name__,
            )
        return _Batch(table, frame=rows)
    if why_spark(found, table, operation, config) is None:
        return _Batch(table, rows=found)
    from tideline.spark.arrow_frame import arrow_frame

    return _Batch(table, frame=arrow_frame(found, table.location))


def _open_engine(table: HoodieTable, spark: SparkSession | None) -> ServiceEngine:
    # Services that move no rows run where Spark is not installed.
    from tideline.spark.services.engine import open_service_engine

    return open_service_engine(table, spark)
