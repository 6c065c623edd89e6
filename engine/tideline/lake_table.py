"""The facade people hold: one table, to write, to read and to look after.

It joins what the layers below keep apart: writing (tideline.write), the engine that moves rows
(tideline.spark), and services such as the rollback of failed writes (tideline.services).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tideline.clock import Clock, SystemClock
from tideline.commit_report import CommitReport, report_write
from tideline.errors import FailedAfterCommitError, TidelineError
from tideline.hudi.check.finding import Finding, Repair
from tideline.hudi.check.repair import repair_table
from tideline.hudi.check.run import check_table
from tideline.hudi.index.bucket_layout import BucketLayout
from tideline.hudi.nature.guard import require as require_permission
from tideline.hudi.nature.look import read_nature
from tideline.hudi.nature.operation import Operation
from tideline.hudi.nature.table_nature import TableNature
from tideline.hudi.recovery.execute import RolledBack
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.services.engine import ServiceEngine
from tideline.hudi.services.explanation import NotDue
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig
from tideline.hudi.services.partition_ttl.execute import (
    PartitionsExpired,
    audit_partition_ttl,
    expired_partitions,
    plan_table_partition_ttl,
)
from tideline.hudi.services.readable_settings import check_readable
from tideline.hudi.services.restore.execute import RestoreDone, preview_restore, restore_table
from tideline.hudi.services.runs import ServicePlan, TableServices
from tideline.hudi.services.savepoint.execute import (
    create_savepoint,
    delete_savepoint,
    list_savepoints,
)
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.services.scheduler import SchedulerConfig, run_after_commit
from tideline.hudi.services.service import ServiceRun
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.location_conflict import refuse_table_conflict
from tideline.hudi.table.names import column_names, member_named, one_or_several
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import (
    TABLE_VERSION,
    KeyGeneratorKind,
    MergeMode,
    TableType,
)
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.engine import WriteEngine
from tideline.hudi.write.operation import WriteOperation
from tideline.hudi.write.planned_write import OPERATION
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.write_request import Requirement
from tideline.settings.setting import Place
from tideline.storage.location import StoreLocation
from tideline.storage.new_root import prepared_root
from tideline.storage.probe.run import probe_conditional_writes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_SYSTEM_CLOCK = SystemClock()


class LakeTable:
    """One table. Reads are always current; every write is one atomic commit."""

    def __init__(self, hoodie_table: HoodieTable) -> None:
        self.hoodie_table = hoodie_table
        self._writer = TableWriter(hoodie_table)

    @classmethod
    def create(
        cls,
        uri: str,
        *,
        record_key: str | Sequence[str],
        schema: Any = None,
        partition_by: str | Sequence[str] = (),
        ordering: str | Sequence[str] = (),
        table_type: TableType | str = TableType.COPY_ON_WRITE,
        table_version: int = TABLE_VERSION,
        name: str | None = None,
        key_generator: KeyGeneratorKind | str | None = None,
        hive_style: bool = False,
        url_encode: bool = False,
        merge_mode: MergeMode | str | None = None,
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock = _SYSTEM_CLOCK,
    ) -> LakeTable:
        """Create an empty table at `uri`.

        Columns are names, or one text with commas between them: `"id"` is `["id"]`.
        `schema` is a pyarrow schema of the user columns, or None to take that of the first write.
        `key_generator` (SIMPLE, COMPLEX, NON_PARTITION, TIMESTAMP, CUSTOM) and `merge_mode`
        (EVENT_TIME_ORDERING, COMMIT_TIME_ORDERING) follow from the columns when left out.
        Raises TableExistsError when a Hudi table is there already, ConfigError for a definition
        that cannot be and for another table at, above or below the location.
        """
        from tideline.hudi.table.create import TableDefinition, create_table, table_properties

        location = StoreLocation.of(uri, storage_options)
        store = location.open()
        definition = TableDefinition(
            name=name or location.uri.rstrip("/").rsplit("/", 1)[-1],
            record_key=column_names(record_key),
            partition_by=column_names(partition_by),
            ordering=column_names(ordering),
            table_type=member_named(TableType, table_type, "table_type") or TableType.COPY_ON_WRITE,
            table_version=table_version,
            key_generator=member_named(KeyGeneratorKind, key_generator, "key_generator"),
            hive_style=hive_style,
            url_encode=url_encode,
            schema=schema,
            merge_mode=member_named(MergeMode, merge_mode, "merge_mode"),
            properties=properties or {},
        )
        check_readable(table_properties(definition))
        with prepared_root(location):
            refuse_table_conflict(location)
            probe_conditional_writes(store)
            return cls(HoodieTable(location, store, create_table(store, definition, clock), clock))

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock = _SYSTEM_CLOCK,
    ) -> LakeTable:
        """Open the table at `uri`.

        Raises TableNotFoundError when there is none, CorruptTableError and UnsupportedTableError.
        """
        return cls(HoodieTable.open(StoreLocation.of(uri, storage_options), clock))

    @property
    def uri(self) -> str:
        return self.hoodie_table.location.uri

    @cached_property
    def nature(self) -> TableNature:
        """What the table is and what may be done with it, as it was when this was first asked."""
        return read_nature(self.hoodie_table)

    @property
    def schema(self) -> pa.Schema | None:
        """The table's columns as they are now; None where no write has said any yet."""
        return self.hoodie_table.table_schema(self.timeline())

    def timeline(self) -> ActiveTimeline:
        """The instants of the table as they are now."""
        return self.hoodie_table.timeline()

    def write(
        self,
        frame: DataFrame,
        operation: WriteOperation | str | None = None,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        require: Requirement | None = None,
        token: str | None = None,
    ) -> CommitReport:
        """Write the rows of a Spark DataFrame as one commit.

        `operation` is upsert (unless the options name another), insert, bulk_insert, delete,
        insert_overwrite, insert_overwrite_table or delete_partition (the last reads only the
        partition columns). `options` are Hudi write settings (`hoodie.*`); `extra_metadata` goes
        into the commit; `require` is asked under the table lock just before the commit completes.
        `token` names this write: repeated with the same token it is never written twice, and the
        report is that of the commit that took place (see tideline.hudi.write.token).

        Raises InvalidDataError when the rows do not fit, ConflictError when another writer was
        faster (nothing of this write is visible; write again), UnknownOutcomeError when the store
        went away while the commit became visible (look, or write again with the same token),
        ConfigError, UnsupportedTableError. A conflict is retried
        `hoodie.write.num.retries.on.conflict.failures` times first.
        """
        from tideline.spark.write.run import partitions_to_delete, write_frame

        given = self._writer.given(options, Place.WRITE)
        wanted, config = self._writer.planned(operation, given)
        if wanted is WriteOperation.DELETE_PARTITION:
            partitions = partitions_to_delete(frame, self.hoodie_table)
            return self.delete_partitions(
                partitions, extra_metadata=extra_metadata, options=given, token=token
            )
        scheduler = SchedulerConfig.of_table(self.hoodie_table.config, given)
        request = self._writer.request(
            wanted, config, extra_metadata=extra_metadata, require=require, token=token
        )
        report = report_write(write_frame(frame, self._writer, request))
        return self._after_commit(report, scheduler, given, frame.sparkSession)

    def delete(
        self,
        where: str | Column,
        *,
        spark: SparkSession | None = None,
        options: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> CommitReport:
        """Delete the rows that match a condition, in SQL or as a column expression, as one commit.

        Rows that others change while this runs are judged as they were when it began: a write to
        the same file groups makes it a ConflictError. Raises as `write` does.
        """
        from tideline.spark.read.snapshot import rows_matching

        spark = spark or _session_of(self.hoodie_table)
        matching = rows_matching(spark, self.hoodie_table, where)
        return self.write(matching, "delete", options=options, token=token)

    def delete_partitions(
        self,
        partitions: str | Sequence[str],
        *,
        extra_metadata: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> CommitReport:
        """Drop whole partitions, given by path, as one commit. Moves no rows, needs no Spark."""
        given, names = self._writer.given(options, Place.WRITE), one_or_several(partitions)
        operation, config = self._writer.planned(WriteOperation.DELETE_PARTITION.value, given)
        scheduler = SchedulerConfig.of_table(self.hoodie_table.config, given).moving_no_rows()
        request = self._writer.request(
            operation, config, extra_metadata=extra_metadata, token=token
        )
        report = report_write(self._writer.delete_partitions(request, names))
        return self._after_commit(report, scheduler, given, None)

    def expire_partitions(
        self,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitReport | NotDue:
        """Drop the partitions that are older than the table's TTL, as one commit.

        NotDue, and no commit, when there are none. Moves no rows, needs no Spark.
        """
        table, writer = self.hoodie_table, self._writer
        given = writer.given(options, Place.SERVICE)
        require_permission(table, Operation.TTL)
        ttl = PartitionTtlConfig.from_settings(Settings({**table.config.properties, **given}))
        planned = plan_table_partition_ttl(table, ttl)
        if isinstance(planned, NotDue):
            return planned
        config = writer.index.for_partitions(given)
        request = writer.request(
            WriteOperation.DELETE_PARTITION, config, extra_metadata=extra_metadata
        )
        return report_write(
            writer.delete_partitions(
                request, lambda timeline: expired_partitions(table, ttl, timeline)
            )
        )

    def write_with(
        self,
        engine: WriteEngine,
        operation: WriteOperation,
        config: WriteConfig,
        extra_metadata: Mapping[str, str],
        require: Requirement | None = None,
        token: str | None = None,
    ) -> CommitReport:
        """Write a batch through an engine that holds it already; see `write`. Runs no services."""
        request = self._writer.request(
            operation, config, extra_metadata=extra_metadata, require=require, token=token
        )
        return report_write(self._writer.write(engine, request))

    def snapshot(self, spark: SparkSession, as_of: Any = None) -> DataFrame:
        """The table's rows, now or as of an instant (text, datetime or InstantTime)."""
        from tideline.spark.read.snapshot import snapshot

        return snapshot(spark, self.hoodie_table, as_of)

    def read_optimized(self, spark: SparkSession) -> DataFrame:
        """The rows of the base files alone: a merge-on-read table without its logs."""
        from tideline.spark.read.snapshot import read_optimized

        return read_optimized(spark, self.hoodie_table)

    def incremental(self, spark: SparkSession, after: Any, until: Any = None) -> DataFrame:
        """Rows that commits in (after, until] wrote, in their latest state by then."""
        from tideline.spark.read.incremental import incremental

        return incremental(spark, self.hoodie_table, after, until)

    def plan(self, service: str, *, options: Mapping[str, str] | None = None) -> ServicePlan:
        """What a service (see tideline.hudi.services.registry) would do now and why; does nothing.

        `options` are settings over the table's own. Raises ConfigError for an unknown service.
        """
        return self.services(options).plan(service)

    def run(
        self,
        service: str,
        *,
        options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
    ) -> ServiceRun:
        """Finish what is pending of a service, then plan and execute what is due.

        Services that move rows run in `spark`, else in a session of their own. Raises ConflictError
        when another process got in the way: nothing is half done, call again.
        """
        return self.services(options, spark=spark).run(service)

    def schedule(self, service: str, *, options: Mapping[str, str] | None = None) -> str | None:
        """Write the plan of a service for others to run; its instant, None when it is not due."""
        outcome = self.services(options).schedule(service)
        return None if isinstance(outcome, NotDue) else str(outcome.time)

    def services(
        self, options: Mapping[str, str] | None = None, *, spark: SparkSession | None = None
    ) -> TableServices:
        """The table's services under its own settings, with `options` over them."""

        def open_engine() -> ServiceEngine:
            # Services that move no rows run where Spark is not installed.
            from tideline.spark.services.engine import open_service_engine

            return open_service_engine(self.hoodie_table, spark)

        def expire_partitions() -> PartitionsExpired | NotDue:
            report = self.expire_partitions(options=given)
            if isinstance(report, NotDue):
                return report
            return audit_partition_ttl(self.hoodie_table, InstantTime(report.instant))

        given = self._writer.given(options, Place.SERVICE)
        config = self._writer.index.for_services(given)
        return TableServices(
            self.hoodie_table,
            self._writer.index.service_settings(given),
            write_config=config,
            failed_writes=self._writer.failed_writes(config),
            open_engine=open_engine,
            expire_partitions=expire_partitions,
        )

    def failed_writes(self) -> tuple[RollbackPlan, ...]:
        """What `recover` would do, without doing it."""
        return self._writer.plan_recovery()

    def recover(self, *, gone: str | Iterable[str] = ()) -> tuple[RolledBack, ...]:
        """Roll back what dead writers left. Writers do this by themselves before they start.

        `gone` names writers that have ended for certain, so that their heartbeats need not expire.
        Clusterings and log compactions go as well that nobody can run, because their plans cannot
        be read; those stop a writer with CorruptTableError. Raises ConfigError when the table's
        zone must be declared.
        """
        return self._writer.recover(one_or_several(gone))

    def savepoint(self, instant: Any = None, *, by: str = "", comment: str = "") -> Savepoint:
        """Keep the table as of a completed commit, the newest one unless said, from cleaning.

        `instant` is text or an InstantTime; `by` and `comment` are for people. Raises ConfigError
        for what is no completed commit or was cleaned in part already.
        """
        time = None if instant is None else InstantTime.parse(str(instant))
        return create_savepoint(self.hoodie_table, time, user=by, comment=comment)

    def savepoints(self) -> tuple[Savepoint, ...]:
        """What is kept, oldest first."""
        return list_savepoints(self.hoodie_table)

    def delete_savepoint(self, instant: Any) -> Savepoint:
        """Give a savepoint up: cleaning may delete what only it kept. Raises ConfigError."""
        return delete_savepoint(self.hoodie_table, InstantTime.parse(str(instant)))

    def restore(self, savepoint: Any, *, dry_run: bool = False) -> RestoreDone:
        """Take the table back to a savepoint: every later write is undone for good.

        Nobody can write meanwhile. A restore that died is finished by calling this again.
        `dry_run` only says what would be undone. Raises ConfigError for what is no savepoint.
        """
        act = preview_restore if dry_run else restore_table
        return act(self.hoodie_table, InstantTime.parse(str(savepoint)))

    def check(self, *, keys: bool = False, across_partitions: bool = False) -> tuple[Finding, ...]:
        """What is wrong with the table, worst first; changes nothing.

        `keys` and `across_partitions` also look for keys stored twice; see check_table.
        """
        return check_table(self.hoodie_table, keys=keys, across_partitions=across_partitions)

    def repair(self, *, keys: bool = False) -> tuple[Repair, ...]:
        """Check under the table lock and mend what is safe to mend; returns the repairs made."""
        return repair_table(self.hoodie_table, self._writer.failed_writes(), keys=keys)

    def bucket_layout(self) -> BucketLayout | None:
        """The table's bucket index and how it is known; None for a table without one."""
        return self._writer.index.layout()

    def planned_write(
        self, operation: WriteOperation | str | None, options: Mapping[str, str] | None
    ) -> tuple[WriteOperation, WriteConfig]:
        """The operation that a write with these options is, and its settings; see `write`."""
        return self._writer.planned(operation, self._writer.given(options, Place.WRITE))

    def write_config(self, options: Mapping[str, str] | None) -> WriteConfig:
        """The table's own settings, with `options` over them, for a write of rows.

        An option `tideline.timezone` declares the zone of this open table from now on. Raises
        ConfigError for an option that is unknown, refused or contradicts the table, for a zone that
        cannot be, when one would place rows by another index than the bucket index the table was
        built with, and where its number of buckets has to be declared; UnsupportedTableError for a
        bucket index that is not written.
        """
        return self._writer.index.for_rows(self._writer.given(options, Place.WRITE))

    def _after_commit(
        self,
        report: CommitReport,
        scheduler: SchedulerConfig,
        options: Mapping[str, str] | None,
        spark: SparkSession | None,
    ) -> CommitReport:
        """Run the services that settings ask for, and report them."""
        if report.is_repeat:
            return report
        of_services = {name: text for name, text in (options or {}).items() if name != OPERATION}
        try:
            done = run_after_commit(self.services(of_services, spark=spark), scheduler)
        except TidelineError as error:
            raise FailedAfterCommitError(
                "the write is committed, do not repeat it; a service that was to follow it "
                f"failed: {error.message}",
                table=self.uri,
                instant=report.instant,
                path=error.path,
                value=error.value,
            ) from error
        return replace(report, services=done)


def _session_of(table: HoodieTable) -> SparkSession:
    from tideline.spark.session.spark_session import spark_session

    return spark_session(locations=[table.location])
