"""The facade of an Iceberg table, as people hold it: create, write, read, rewrite, expire, tidy.

It joins what the layers below keep apart: the plans and commits of `tideline.iceberg`, and Spark,
which moves the rows of large rewrites. Every `plan_*` changes nothing; its counterpart plans again,
on the newest metadata, and does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tideline.check_finding import Finding
from tideline.clock import Clock, SystemClock
from tideline.commit_report import CommitReport
from tideline.hudi.table.names import column_names, one_or_several
from tideline.iceberg.check.run import check_iceberg
from tideline.iceberg.evolution.changes import IcebergChanges
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.due_facts import IcebergFacts
from tideline.iceberg.services.expire_snapshots.execute import (
    ExpirePreview,
    ExpireRun,
    execute_expire,
    preview_expire,
)
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.registry import all_services
from tideline.iceberg.services.remove_orphan_files.execute import (
    OrphanRun,
    execute_orphans,
    plan_orphans,
)
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions, OrphanPlan
from tideline.iceberg.services.rewrite_data_files.arguments import RewriteArguments
from tideline.iceberg.services.rewrite_data_files.plan import RewritePlan
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_table_rewrite
from tideline.iceberg.services.service import IcebergContext
from tideline.iceberg.services.snapshot_files import count_snapshot_files
from tideline.iceberg.table.catalog_name import catalog_named
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.iceberg_words import IcebergWords
from tideline.resource_usage import ResourceUsage
from tideline.services.explanation import NotDue
from tideline.services.run import ServicePlan, ServiceRun
from tideline.services.service import named

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tideline.erasure.iceberg_rows import IcebergErasure
    from tideline.iceberg.services.rewrite_data_files.group_outcome import RewriteEngine
    from tideline.iceberg.services.rewrite_data_files.run import RewriteReport

_SYSTEM_CLOCK = SystemClock()
Moment = datetime | timedelta
"""A time, or an age; a time without a zone is UTC."""


def open_iceberg(
    uri: str | PathLike[str],
    *,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
    clock: Clock = _SYSTEM_CLOCK,
) -> IcebergLakeTable:
    """Open the Iceberg table in the folder or s3:// prefix `uri`, which no catalog keeps.

    With `catalog`, its name in PyIceberg's configuration or its address, `uri` is `namespace.name`
    and `catalog_properties` are properties over those of the configuration; needs the extra
    `iceberg`.
    Raises TableNotFoundError when there is none, UnsupportedTableError when a catalog keeps it,
    CorruptTableError, ConfigError and StorageUnavailableError.
    """
    if catalog is None:
        table = IcebergTable.open(uri, storage_options, clock=clock)
    else:
        name, properties = catalog_named(catalog, catalog_properties)
        table = IcebergTable.from_catalog(
            name,
            fspath(uri),
            properties=properties,
            storage_options=storage_options,
            clock=clock,
        )
    return IcebergLakeTable(table, clock)


def create_iceberg(
    uri: str | PathLike[str],
    schema: pa.Schema,
    *,
    key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    format_version: int = 2,
    properties: Mapping[str, str] | None = None,
    catalog: str | None = None,
    location: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str | bool] | None = None,
    clock: Clock = _SYSTEM_CLOCK,
) -> IcebergLakeTable:
    """Create an empty Iceberg table with these columns in the folder or s3:// prefix `uri`.

    `key` are the columns that identify a row; `partition_by` is such as `"day(ts), bucket(16, id)"`
    and `sort_by` such as `"region, ts DESC NULLS LAST"`; `format_version` is 1, 2 or 3.
    With `catalog`, its name in PyIceberg's configuration or its address, `uri` is `namespace.name`,
    and the files go to `location`; without it a REST catalog chooses the place, and those of others
    go below its warehouse where that is a folder.
    Raises TableExistsError, ConfigError for a definition that cannot be and for another table at,
    above or below the location, UnsupportedTableError when the catalog refuses.
    """
    from tideline.iceberg_writing import new_iceberg_table, table_definition

    definition = table_definition(
        schema,
        key=key,
        partition_by=partition_by,
        sort_by=sort_by,
        format_version=format_version,
        properties=properties,
    )
    made = new_iceberg_table(
        fspath(uri),
        definition,
        clock,
        catalog=catalog,
        location=location,
        catalog_properties=catalog_properties,
        storage_options=storage_options,
    )
    return IcebergLakeTable(made, clock)


class IcebergLakeTable(IcebergWords):
    """One Iceberg table. What is shown of it is as the last `refresh` or change found it."""

    def __init__(self, table: IcebergTable, clock: Clock = _SYSTEM_CLOCK) -> None:
        self.table = table
        self._clock = clock
        self.summary: Mapping[str, str] = {}
        """What services add to the summaries of snapshots."""

    def __repr__(self) -> str:
        newest = self.metadata.snapshot()
        rows = "no snapshot yet" if newest is None else f"newest snapshot {newest.snapshot_id}"
        return f"<IcebergLakeTable, version {self.version}, {rows}, at {self.uri}>"

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self.table.io.location.uri

    @property
    def metadata(self) -> TableMetadata:
        """Everything that the table's metadata says."""
        return self.table.metadata

    @property
    def schema(self) -> pa.Schema:
        """The current columns as a pyarrow schema.

        Raises UnsupportedTableError for variant, geometry and geography columns.
        """
        from tideline.iceberg.data.arrow_schema import arrow_schema

        return arrow_schema(self.metadata.schema().fields)

    def write(
        self,
        rows: Any,
        operation: str | None = None,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        token: str | None = None,
        branch: str = MAIN,
        where: Any = None,
        key: str | Sequence[str] = (),
    ) -> CommitReport:
        """Write rows as one commit, in this process: those of pyarrow (a Dataset or a reader of
        batches as well, in bounded memory), pandas, a list of dicts, or whatever gives an Arrow
        stream, as Polars, DuckDB and other tables do. Those of a Spark DataFrame are written by
        Spark's tasks, which find keys as well. Columns are found by name.

        `operation` is append (or insert, bulk_insert); upsert, of rows with the same key; delete,
        of rows with the keys of those given; overwrite (insert_overwrite_table), of all rows or
        those that match `where`; or overwrite_partitions (insert_overwrite), of the partitions that
        rows are in. `key` names its columns where it is not the table's identifier fields.

        `options` are table properties for this write (`write.*`, `commit.*`); `extra_metadata` goes
        into the summary of the snapshot. `token` names this write: repeated with the same token it
        is written once, as long as the table keeps its snapshot. `branch` gets the snapshot.
        Raises InvalidDataError when the rows do not fit, ConflictError when other writers were
        always first (nothing of this write is visible; write again), UnknownOutcomeError when the
        store or the catalog went away while the commit became visible (look, or write again with
        the same token), ConfigError, UnsupportedTableError.
        """
        from tideline.iceberg_writing import write_iceberg

        write = IcebergWrite.asked(
            operation,
            branch=branch,
            token=token,
            extra=extra_metadata,
            options=options,
            where=where,
            key=column_names(key),
        )
        return write_iceberg(self.table, rows, write, self._clock)

    def delete(
        self,
        where: Any,
        *,
        extra_metadata: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        token: str | None = None,
        branch: str = MAIN,
    ) -> CommitReport:
        """Delete the rows that match a condition as for reading, in one commit. Raises ConfigError
        for what is no condition, and as `write` does."""
        from tideline.iceberg_writing import change_iceberg

        write = IcebergWrite.asked(
            "delete", branch=branch, token=token, extra=extra_metadata, options=options, where=where
        )
        return change_iceberg(self.table, write, self._clock)

    def update(
        self,
        where: Any,
        set: Mapping[str, Any],
        *,
        extra_metadata: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        token: str | None = None,
        branch: str = MAIN,
    ) -> CommitReport:
        """Change columns of the rows that match a condition as for reading, in one commit.

        `set` has a value for each column, or an expression of pyarrow over the row:
        `{"status": "late", "n": pyarrow.compute.field("n") + 1}`. Raises ConfigError for columns of
        the key and for what is no value of a column, and as `write` does.
        """
        from tideline.iceberg_writing import change_iceberg

        write = IcebergWrite(
            IcebergOperation.UPDATE,
            branch,
            token,
            extra_metadata or {},
            options or {},
            where,
            changes=set,
        )
        return change_iceberg(self.table, write, self._clock)

    def alter(self) -> IcebergChanges:
        """Changes of columns, partitions, order, properties, branches and tags: each method of what
        this gives adds one, and `commit`, or the end of a `with` block, makes them, all or none."""
        return IcebergChanges(self.table, self._clock)

    def refresh(self) -> IcebergLakeTable:
        """Load the newest metadata; returns the table itself. Raises as `open_iceberg`."""
        self.table.refresh()
        return self

    def check(self) -> tuple[Finding, ...]:
        """What is wrong with the table, worst first: metadata, manifests, files and footers of
        branches and tags, and whether all that older snapshots need is there. Changes nothing.
        Raises as `open_iceberg`."""
        return check_iceberg(self.table.operations)

    def plan(self, service: str, *, options: Mapping[str, str] | None = None) -> ServicePlan:
        """What a service would do now and why; changes nothing. See `run`."""
        wanted, now_ms = named(service, all_services()), self._clock.now_ms()
        metadata, given = self.table.refresh(), options or {}
        if refused := wanted.refusal(metadata):
            return ServicePlan(wanted, NotDue(refused))
        facts = IcebergFacts(metadata, now_ms)
        if wanted.counts_files:
            files = count_snapshot_files(self.table.io, metadata, given, given, now_ms=now_ms)
            facts = replace(facts, files=files)
        return ServicePlan(wanted, wanted.plan(self._context(given), facts))

    def run(
        self,
        service: str,
        *,
        options: Mapping[str, str] | None = None,
        spark: SparkSession | Callable[[], SparkSession] | None = None,
    ) -> ServiceRun:
        """Do what is due of a service: rewrite_data_files, rewrite_position_deletes,
        rewrite_manifests, expire_snapshots or remove_orphan_files.

        `options` are the arguments and options of Iceberg's procedure of that purpose, with ages in
        milliseconds (`older_than_age_ms`). Rows of large rewrites move in `spark`, a session or
        what gives one, without it in a session of their own. `refresh` shows what came of it.
        Raises ConflictError when another writer got in the way (call again), UnknownOutcomeError
        when it is unknown whether it took place, ConfigError, FailedAfterCommitError,
        CorruptTableError and UnsupportedTableError.
        """
        self.table.refresh()
        before = ResourceUsage.so_far()
        run = named(service, all_services()).execute(self._context(options or {}, spark))
        return run.finished(before, self.table.io.store_at(self.table.io.location))

    def plan_rewrite(
        self,
        *,
        where: str | None = None,
        strategy: str | None = None,
        sort_order: str | None = None,
        options: Mapping[str, str] | None = None,
        branch: str = MAIN,
    ) -> RewritePlan:
        """Which data files `rewrite` would rewrite, and why; see it for the arguments."""
        self.table.refresh()
        asked = RewriteArguments.asked(
            options or {}, self.metadata, strategy=strategy, sort_order=sort_order, where=where
        )
        return plan_table_rewrite(
            self.table.io, self.metadata, asked.options, where=asked.where, branch=branch
        )

    def rewrite(
        self,
        *,
        where: str | None = None,
        strategy: str | None = None,
        sort_order: str | None = None,
        options: Mapping[str, str] | None = None,
        branch: str = MAIN,
        spark: SparkSession | None = None,
    ) -> RewriteReport:
        """Rewrite data files that are too small, too large or full of deletes.

        `where` is SQL and picks files that may hold such rows; `strategy` is binpack, sort or
        zorder; `sort_order` such as `day, id DESC NULLS LAST`; `options` are those of Iceberg's
        rewrite_data_files. The rows move in `spark`, without it in this process; so do those of
        small rewrites unless `tideline.engine.small=spark` is among the options.

        Raises ConflictError when a concurrent delete made the rewrite void (nothing has changed,
        call again), UnknownOutcomeError when the store went away while it became visible,
        ConfigError, CorruptTableError and UnsupportedTableError. With partial progress what failed
        is in the report.
        """
        from tideline.iceberg.services.rewrite_data_files.in_process import (
            engine_for,
            write_groups_here,
        )
        from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files

        self.table.refresh()
        asked = RewriteArguments.asked(
            options or {}, self.metadata, strategy=strategy, sort_order=sort_order, where=where
        )
        engine: Any = write_groups_here
        if spark is not None:
            engine = engine_for(asked.options, partial(engine_on, spark))
        chosen, clock = asked.options, self._clock
        return rewrite_data_files(
            self.table, chosen, engine, where=asked.where, branch=branch, clock=clock
        )

    def erase(
        self,
        where: str,
        *,
        prove: bool = False,
        landing: str | Iterable[str] = (),
        delete_landing_files: bool = False,
        dry_run: bool = False,
        spark: SparkSession | None = None,
    ) -> IcebergErasure:
        """Delete the rows that match a condition in Spark's SQL, and every file that held them.

        Files with such rows, hidden ones included, are rewritten, all snapshots but that are
        expired. `prove` counts matching rows in every file below the table, before and after;
        source files below `landing`, one place or several, are searched, and with
        `delete_landing_files` those with such rows are deleted whole. `dry_run` changes nothing. A
        run that died is finished by the next.
        Raises ConfigError naming branches and tags in the way, ConflictError when other writers
        were always first (call again), UnknownOutcomeError, UnsupportedTableError.
        """
        from tideline.erasure.iceberg_rows import erase_iceberg_rows
        from tideline.erasure.source_files import LandingRequest

        searched = LandingRequest.of(
            one_or_several(landing),
            dict(self.table.io.location.options),
            deletes_files=delete_landing_files,
        )
        return erase_iceberg_rows(
            self.table,
            where,
            proves=prove,
            landing=searched,
            is_preview=dry_run,
            spark=spark,
            clock=self._clock,
        )

    def plan_expire(
        self,
        *,
        older_than: Moment | None = None,
        retain_last: int | None = None,
        snapshot_ids: Sequence[int] = (),
    ) -> ExpirePreview:
        """Which snapshots and files `expire` would take away; see it for the arguments."""
        options = self._expire_options(older_than, retain_last, snapshot_ids)
        return preview_expire(self.table.operations, options, clock=self._clock)

    def expire(
        self,
        *,
        older_than: Moment | None = None,
        retain_last: int | None = None,
        snapshot_ids: Sequence[int] = (),
    ) -> ExpireRun:
        """Expire snapshots that no branch or tag keeps, and delete the files only they led to.

        `older_than` is a time or an age and `retain_last` what each branch keeps at least, both by
        default the table's own setting; `snapshot_ids` go as well. Raises ConflictError when other
        writers were always first, UnknownOutcomeError (then nothing was deleted), ConfigError,
        FailedAfterCommitError naming the command that deletes files that could not be deleted.
        """
        options = self._expire_options(older_than, retain_last, snapshot_ids)
        run = execute_expire(self.table.operations, options, clock=self._clock)
        run.refuse_failure(self.uri)
        self.table.refresh()
        return run

    def plan_remove_orphans(
        self, *, older_than: Moment | None = None, locations: Sequence[str] = ()
    ) -> OrphanPlan:
        """Which files `remove_orphans` would delete; see it for the arguments."""
        options = OrphanOptions(self._moment_ms(older_than), tuple(locations))
        return plan_orphans(self.table.operations, options, clock=self._clock)

    def remove_orphans(
        self, *, older_than: Moment | None = None, locations: Sequence[str] = ()
    ) -> OrphanRun:
        """Delete files in the table's folders that it does not know.

        `older_than` is a time or an age of at least a day, by default three; `locations` are the
        folders to look in, by default the table's own. Raises ConfigError for a younger age and a
        folder that is not the table's alone, UnsupportedTableError, CorruptTableError.
        """
        plan = self.plan_remove_orphans(older_than=older_than, locations=locations)
        return execute_orphans(self.table.operations, plan)

    def _context(
        self,
        given: Mapping[str, str],
        spark: SparkSession | Callable[[], SparkSession] | None = None,
    ) -> IcebergContext:
        engine = partial(engine_on, spark)
        return IcebergContext(self.table, given, self._clock, engine, self.summary)

    def _expire_options(
        self, older_than: Moment | None, retain_last: int | None, snapshot_ids: Sequence[int]
    ) -> ExpireOptions:
        return ExpireOptions(self._moment_ms(older_than), retain_last, tuple(snapshot_ids))

    def _moment_ms(self, moment: Moment | None) -> int | None:
        if isinstance(moment, timedelta):
            return self._clock.now_ms() - round(moment.total_seconds() * 1000)
        if moment is None:
            return None
        known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return round(known.timestamp() * 1000)


def engine_on(spark: SparkSession | Callable[[], SparkSession] | None) -> RewriteEngine:
    """What rewrites in a session, in what gives one, or in one of its own."""
    from tideline.spark.iceberg.rewrite import execute_groups
    from tideline.spark.session.spark_session import spark_session

    # Tasks read and write through our own clients: Spark needs no S3A for it.
    session = spark_session("tideline iceberg rewrite") if spark is None else spark
    return partial(execute_groups, session() if callable(session) else session)
