"""The facade of Hudi tables: one table, to write, to read and to maintain.

It joins what the layers below keep apart: writing (tideline.hudi.write), the services
(tideline.hudi.services), and the engine that moves rows for both (tideline.spark).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from tideline.check_finding import Finding, Repair
from tideline.clock import Clock, SystemClock
from tideline.commit_report import CommitReport, report_write
from tideline.hudi.capabilities.look import read_capabilities
from tideline.hudi.capabilities.table_capabilities import TableCapabilities
from tideline.hudi.check.repair import repair_table
from tideline.hudi.check.run import check_table
from tideline.hudi.open_table import open_table
from tideline.hudi.recovery.execute import RolledBack
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.services.partition_ttl.execute import expire_partitions
from tideline.hudi.services.readable_settings import check_readable
from tideline.hudi.services.restore.execute import RestoreDone, preview_restore, restore_table
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.savepoint.execute import (
    create_savepoint,
    delete_savepoint,
    find_savepoint,
    list_savepoints,
    preview_savepoint,
)
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.names import column_names, member_named, one_or_several
from tideline.hudi.table.table_config import TABLE_VERSION, KeyGeneratorKind, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.upgrade.execute import VersionChanged
from tideline.hudi.upgrade.run import preview_version_change, run_version_change
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import Requirement
from tideline.readable_table import Columns, one_condition
from tideline.services.explanation import NotDue
from tideline.services.run import ServicePlan, ServiceRun
from tideline.settings.setting import SettingPlace
from tideline.shown_table import ShownTable
from tideline.storage.location import StoreLocation
from tideline.table_words import TableWords
from tideline.writable_table import Options, StoreOptions
from tideline.write_and_serve import (
    delete_partitions,
    delete_rows,
    followed,
    followed_after_restore,
    open_services,
    write_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from tideline.erasure.report import Erasure
    from tideline.hudi.metadata_indexes.table_indexes import TableIndexes
    from tideline.hudi.read.changes import ChangeFeed
    from tideline.hudi.read.net_changes import NetChanges

_SYSTEM_CLOCK = SystemClock()


class LakeTable(ShownTable, TableWords):
    """One table. Reads are always current; every write is one atomic commit."""

    def __init__(self, hoodie_table: HoodieTable) -> None:
        self.hoodie_table = hoodie_table
        self.writer = TableWriter(hoodie_table)

    @classmethod
    def create(
        cls,
        uri: str | PathLike[str],
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
        properties: Options = None,
        storage_options: StoreOptions = None,
        clock: Clock = _SYSTEM_CLOCK,
    ) -> LakeTable:
        """Create an empty table at `uri`.

        Columns are names, or one text with commas between them: `"id"` is `["id"]`.
        `table_version` is 6 (read by Hudi 0.14 and later), 8 (1.0 and later) or 9 (1.1 and later).
        `schema` is a pyarrow schema of the user columns, or None to take that of the first write.
        `key_generator` (SIMPLE, COMPLEX, NON_PARTITION, TIMESTAMP, CUSTOM) and `merge_mode`
        (EVENT_TIME_ORDERING, COMMIT_TIME_ORDERING) follow from the columns when left out.
        Raises TableExistsError, and ConfigError for a definition that cannot be and for another
        table at, above or below the location.
        """
        from tideline.hudi.new_table import create_at
        from tideline.hudi.table.create import TableDefinition, table_properties

        location = StoreLocation.of(uri, storage_options)
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
        return cls(create_at(location, definition, clock))

    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        *,
        storage_options: StoreOptions = None,
        clock: Clock = _SYSTEM_CLOCK,
    ) -> LakeTable:
        """Open the table at `uri`.

        Raises TableNotFoundError when there is none, CorruptTableError and UnsupportedTableError.
        """
        return cls(open_table(StoreLocation.of(uri, storage_options), clock))

    @property
    def uri(self) -> str:
        return self.hoodie_table.location.uri

    @cached_property
    def capabilities(self) -> TableCapabilities:
        """What the table is and what may be done with it, as it was when this was first asked."""
        return read_capabilities(self.hoodie_table)

    @property
    def schema(self) -> pa.Schema | None:
        """The table's columns as they are now; None where no write has said any yet."""
        return self.hoodie_table.schemas.newest(self.timeline())

    def timeline(self) -> ActiveTimeline:
        """The instants of the table as they are now."""
        return self.hoodie_table.timeline()

    def write(
        self,
        rows: Any,
        operation: WriteOperation | str | None = None,
        *,
        extra_metadata: Options = None,
        options: Options = None,
        require: Requirement | None = None,
        token: str | None = None,
        strict: bool = False,
    ) -> CommitReport:
        """Write rows as one commit: of a Spark DataFrame, or of what is in memory here.

        That is pyarrow, pandas, a list of dicts, or whatever gives an Arrow stream, as Polars and
        DuckDB do: it is written by this process, without Spark, unless it is large (512 MiB) or the
        table is one of those that docs/operations.md names. A DataFrame whose rows are few is
        computed once and written in the same way; `tideline.engine.small=spark` leaves it to
        Spark's tasks.
        `operation` is upsert (unless the options name another), insert, bulk_insert, delete,
        insert_overwrite, insert_overwrite_table or delete_partition (the last reads only the
        partition columns). `options` are Hudi write settings (`hoodie.*`); `extra_metadata` goes
        into the commit; `require` is asked under the table lock just before the commit completes.
        `token` names this write: repeated with the same token it is never written twice, and the
        report is that of the commit that took place (see tideline.hudi.write.token).
        Rows are null in optional columns, and fields of structs, that they lack; `strict` refuses
        such rows. A new column waits for its type until a row has a value in it.
        Raises InvalidDataError when the rows do not fit, ConflictError when another writer was
        faster (nothing of this write is visible; write again), UnknownOutcomeError when the store
        went away while the commit became visible (look, or write again with the same token),
        ConfigError, UnsupportedTableError. A conflict is retried
        `hoodie.write.num.retries.on.conflict.failures` times first.
        """
        return write_rows(
            self.writer, rows, operation, options, extra_metadata, require, token, strict=strict
        )

    def delete(
        self,
        where: str | Column,
        *,
        spark: SparkSession | None = None,
        options: Options = None,
        token: str | None = None,
    ) -> CommitReport:
        """Delete the rows that match a condition, in SQL or as a column expression, as one commit.

        They are found again by the keys and partition paths they are stored with, in the files that
        they were read from. Raises UnsupportedTableError, and deletes nothing, where these are not
        as many rows as matched; ConflictError when another writer changed the same file groups
        since the rows were read; and as `write` does.
        """
        return delete_rows(self.writer, where, options, token, spark)

    def erase(
        self,
        where: str | Column,
        *,
        prove: bool = False,
        drop_savepoints: bool = False,
        landing: str | Iterable[str] = (),
        delete_landing_files: bool = False,
        dry_run: bool = False,
        options: Options = None,
        spark: SparkSession | None = None,
    ) -> Erasure:
        """Delete the rows that match, and every older version of the table's files with them.

        Logs are compacted, older versions cleaned, an Iceberg publication loses its older
        snapshots. `prove` counts matching rows in every file before and after; source files below
        `landing`, one place or several, are searched, and with `delete_landing_files` those with
        such rows are deleted whole. `dry_run` changes nothing; `options` are those of services. A
        run that died is finished by the next.
        Raises ConfigError naming savepoints, unless they are to be dropped, and pinned readers;
        UnsupportedTableError, and ConflictError as `write` and `run` do (call again).
        """
        from tideline.erasure.execute import ErasureRequest, erase_rows
        from tideline.erasure.source_files import LandingRequest

        searched = LandingRequest.of(
            one_or_several(landing),
            dict(self.hoodie_table.location.options),
            deletes_files=delete_landing_files,
        )
        request = ErasureRequest(where, prove, drop_savepoints, searched, dry_run)
        return erase_rows(self.writer, request, options, spark)

    def delete_partitions(
        self,
        partitions: str | Sequence[str],
        *,
        extra_metadata: Options = None,
        options: Options = None,
        token: str | None = None,
    ) -> CommitReport:
        """Drop whole partitions, given by path, as one commit. Moves no rows, needs no Spark."""
        return delete_partitions(self.writer, partitions, options, extra_metadata, token)

    def expire_partitions(
        self, *, extra_metadata: Options = None, options: Options = None
    ) -> CommitReport | NotDue:
        """Drop the partitions older than the table's TTL, as one commit; NotDue without any."""
        given = self.writer.given(options, SettingPlace.SERVICE)
        done = expire_partitions(self.writer, given, extra_metadata)
        if isinstance(done, NotDue):
            return done
        report = report_write(done)
        return replace(report, notes=(*report.notes, *followed(self.hoodie_table, given)))

    def snapshot(self, spark: SparkSession, as_of: Any = None) -> DataFrame:
        """The table's rows, now or as of a time (text, date, datetime or InstantTime).

        Of the files those are opened that may hold rows of a query, by its filters, as in `scan`.
        In tables of versions 8 and 9 that is what had completed by then; the time of a commit is
        when it completed. A time reads the same for ever: raises ConfigError for one before the
        first commit, in the future, or whose files are gone, and ConflictError while a write may
        still complete at it.
        """
        from tideline.spark.read.frames import snapshot

        return snapshot(spark, self.hoodie_table, as_of)

    def scan(
        self,
        columns: Columns = None,
        where: Any = None,
        as_of: Any = None,
        limit: int | None = None,
        *,
        filter: Any = None,
    ) -> pa.RecordBatchReader:
        """The table's rows, now or as of a time, batch after batch in Arrow, without Spark.

        `columns` are all unless given, Hudi's first. `where` is a condition in SQL, `"ts > 5"`, or
        in pyarrow's form, `pyarrow.compute.field("ts") > 5` or `[("ts", ">", 5)]`; what it rules
        out is not read. `filter` is another name of it. Of the rows it selects the first `limit`
        are given: reading ends there.
        Batches are read ahead until the reader is dropped. Raises ConfigError for
        columns and conditions that the table does not have, and for an `as_of` as `snapshot` does;
        a file that cannot be read raises CorruptTableError when its rows are reached.
        """
        from tideline.hudi.read.arrow_scan import ArrowScan
        from tideline.hudi.read.snapshot import plan_snapshot

        table, condition = self.hoodie_table, one_condition(where, filter)
        return ArrowScan.of(table, plan_snapshot(table, as_of), columns, condition).to_reader(limit)

    def read_optimized(self, spark: SparkSession) -> DataFrame:
        """The rows of the base files alone: a merge-on-read table without its logs."""
        from tideline.spark.read.frames import read_optimized

        return read_optimized(spark, self.hoodie_table)

    def incremental(
        self, spark: SparkSession, after: Any, until: Any = None, *, deletes: bool = False
    ) -> DataFrame:
        """Rows that commits in (after, until] wrote.

        Either is the time of a commit, or any other; in tables of versions 8 and 9 commits count by
        the times at which they completed. With `deletes` the frame has the rows that are gone as
        well, and what became of each in `_change_type`: it is `net_changes` in Spark.
        """
        from tideline.spark.read.frames import incremental

        return incremental(spark, self.hoodie_table, after, until, deletes=deletes)

    def changes(self, after: Any = 0, until: Any = None) -> ChangeFeed:
        """What commits in (after, until] did to rows: inserted, updated, deleted, with what updated
        and deleted rows were before, in Arrow, without Spark.

        Either is the time of a commit, the commit itself, or any other time; 0 is before the first.
        Begin after `.until` the next time. Raises ConfigError naming the earliest time to begin
        after when files of the range have been cleaned, or its commits archived.
        """
        from tideline.hudi.read.changes import ChangeFeed

        return ChangeFeed.of(self.hoodie_table, after, until)

    def net_changes(self, after: Any, until: Any = None) -> NetChanges:
        """What `changes` come down to: of each key its last row, INSERT, UPDATE_AFTER or DELETE.

        Begin after `.until` the next time. Raises as `changes`.
        """
        from tideline.hudi.read.net_changes import NetChanges

        return NetChanges(self.changes(after, until))

    def plan(self, service: str, *, options: Options = None) -> ServicePlan:
        """What a service would do now and why; changes nothing."""
        return self.services(options).plan(service)

    def run(
        self,
        service: str,
        *,
        options: Options = None,
        spark: SparkSession | Callable[[], SparkSession] | None = None,
    ) -> ServiceRun:
        """Finish what is pending of a service, then plan and execute what is due.

        Services that move rows do so in this process where their work is small, else in `spark`, a
        session or what gives one, else in a session of their own. Raises ConflictError when another
        process got in the way: nothing is half done, call again.
        """
        run = self.services(options, spark=spark).run(service)
        return replace(run, notes=(*run.notes, *followed(self.hoodie_table, options)))

    def schedule(self, service: str, *, options: Options = None) -> str | None:
        """Write the plan of a service for others to run; its instant, None when it is not due."""
        outcome = self.services(options).schedule(service)
        return None if isinstance(outcome, NotDue) else str(outcome.time)

    def services(
        self,
        options: Options = None,
        *,
        spark: SparkSession | Callable[[], SparkSession] | None = None,
    ) -> TableServices:
        """The table's services under its own settings, with `options` over them."""
        given = self.writer.given(options, SettingPlace.SERVICE)
        return open_services(self.writer, given, spark)

    def failed_writes(self) -> tuple[RollbackPlan, ...]:
        """What `recover` would do, without doing it."""
        return self.writer.plan_recovery()

    def recover(self, *, gone: str | Iterable[str] = ()) -> tuple[RolledBack, ...]:
        """Roll back what dead writers left. Writers do this by themselves before they start.

        `gone` names writers that have ended for certain, so that their heartbeats need not expire.
        Clusterings and log compactions whose plans cannot be read, which stop a writer with
        CorruptTableError, go as well. Raises ConfigError when the table's zone must be declared.
        """
        return self.writer.recover(one_or_several(gone))

    def savepoint(
        self, instant: Any = None, *, by: str = "", comment: str = "", dry_run: bool = False
    ) -> Savepoint:
        """Keep the table as of a completed commit, by default the newest one, from cleaning.

        `by` and `comment` are for people; `dry_run` changes nothing. Raises ConfigError for what is
        no completed commit or was cleaned in part already.
        """
        time = None if instant is None else InstantTime.parse(str(instant))
        act = preview_savepoint if dry_run else create_savepoint
        return act(self.hoodie_table, time, user=by, comment=comment)

    def savepoints(self) -> tuple[Savepoint, ...]:
        """What is kept, oldest first."""
        return list_savepoints(self.hoodie_table)

    def delete_savepoint(self, instant: Any, *, dry_run: bool = False) -> Savepoint:
        """Give a savepoint up: cleaning may delete what only it kept. Raises ConfigError."""
        act = find_savepoint if dry_run else delete_savepoint
        return act(self.hoodie_table, InstantTime.parse(str(instant)))

    def restore(self, savepoint: Any, *, dry_run: bool = False) -> RestoreDone:
        """Take the table back to a savepoint: every later write is undone for good.

        No other process can write until it is done; one that died is finished by calling it again.
        `dry_run` only says what would be undone. Raises ConfigError for what is no savepoint.
        """
        time = InstantTime.parse(str(savepoint))
        if dry_run:
            return preview_restore(self.hoodie_table, time)
        done = restore_table(self.hoodie_table, time)
        followed_after_restore(self.hoodie_table)
        return done

    def change_version(
        self,
        version: int,
        *,
        dry_run: bool = False,
        options: Options = None,
        spark: SparkSession | None = None,
    ) -> VersionChanged:
        """Bring the table to version 6, 8 or 9, up or down; `dry_run` only says what would be done.

        Dead writes are rolled back and, where logs are read in another way afterwards, everything
        is compacted first, as `run` does it. Raises ConflictError when others were at work (call
        again), ConfigError, UnsupportedTableError.
        """
        act = preview_version_change if dry_run else run_version_change
        changed = act(self.services(options, spark=spark), version)
        if not dry_run:
            followed(self.hoodie_table, options)
        return changed

    def indexes(self, options: Options = None) -> TableIndexes:
        """What makes, lists and drops the partitions of the table's metadata table by which queries
        leave files out; `options` are settings over the table's own."""
        from tideline.hudi.metadata_indexes.table_indexes import TableIndexes

        return TableIndexes(self.hoodie_table, self.writer.given(options, SettingPlace.SERVICE))

    def check(self, *, keys: bool = False, across_partitions: bool = False) -> tuple[Finding, ...]:
        """What is wrong, worst first; `keys` and `across_partitions` look for keys stored twice."""
        return check_table(self.hoodie_table, keys=keys, across_partitions=across_partitions)

    def repair(self, *, keys: bool = False) -> tuple[Repair, ...]:
        """Check under the table lock and mend what is safe to mend; returns the repairs made."""
        return repair_table(self.hoodie_table, self.writer.failed_writes(), keys=keys)
