"""A write of rows or partitions, and the table services that settings want after it.

1. The options are checked, and say which operation it is and what services follow.
2. One commit: of rows (`tideline.row_batch`), or of whole partitions.
3. It is followed: published as Iceberg, and registered in metastores, where the table asks for it.
4. The services run, or are scheduled (`hudi.services.scheduler`), and what they committed is
   followed likewise. What fails there leaves the commit as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tideline.commit_report import CommitReport, report_write
from tideline.errors import (
    ConfigError,
    FailedAfterCommitError,
    StorageUnavailableError,
    TidelineError,
)
from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.scheduler import SchedulerConfig, run_after_commit
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.names import one_or_several
from tideline.hudi.table.table_config import ICEBERG, PUBLISH, SYNC
from tideline.hudi.write.config import refusing_missing_columns
from tideline.hudi.write.matched_rows import MatchedRows, by_stored_place
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import Requirement, WriteRequest
from tideline.publication.presence import is_published
from tideline.row_batch import RowBatch
from tideline.service_engine import OpenSpark, ServiceEngineBySize
from tideline.settings.setting import SettingPlace

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from tideline.hudi.read.matching_rows import MatchingRows


def write_rows(
    writer: TableWriter,
    rows: Any,
    operation: WriteOperation | str | None,
    options: Mapping[str, str] | None,
    extra_metadata: Mapping[str, str] | None,
    require: Requirement | None,
    token: str | None,
    *,
    strict: bool = False,
    matched: MatchedRows | None = None,
) -> CommitReport:
    """See `LakeTable.write`; `matched` says which rows of the table they are."""
    given = writer.given(options, SettingPlace.WRITE)
    if strict:
        given = refusing_missing_columns(given)
    wanted, config = writer.planned(operation, given)
    if matched is not None and config.index.type.places_by_hash:
        config = by_stored_place(config)
    batch = RowBatch.of(rows, writer.table, wanted, config)
    if wanted is WriteOperation.DELETE_PARTITION:
        partitions = batch.partitions_to_delete()
        return delete_partitions(writer, partitions, given, extra_metadata, token)
    request = writer.request(
        wanted,
        config,
        extra_metadata=extra_metadata,
        require=require,
        token=token,
        matched=matched,
    )
    return _committed(batch, writer, request, given)


def delete_rows(
    writer: TableWriter,
    where: str | Column,
    options: Mapping[str, str] | None,
    token: str | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """See `LakeTable.delete`."""
    given = writer.given(options, SettingPlace.WRITE)
    operation, config = writer.planned_delete(given)
    batch = RowBatch.matching(where, writer.table, config, spark)
    return _committed(batch, writer, writer.request(operation, config, token=token), given)


def delete_found(
    writer: TableWriter,
    found: MatchingRows,
    options: Mapping[str, str] | None,
    extra_metadata: Mapping[str, str],
    require: Requirement,
) -> CommitReport:
    """Delete rows that were found, by this process, as one commit; raises as `LakeTable.delete`."""
    from tideline.in_process.run import open_matched_engine

    given = writer.given(options, SettingPlace.WRITE)
    operation, config = writer.planned_delete(given)
    request = writer.request(operation, config, extra_metadata=extra_metadata, require=require)
    seen = TransactionStart.of(found.timeline)
    engine = open_matched_engine(found.rows, writer.table, config, seen, found.groups)
    try:
        report = report_write(writer.write(engine, request))
    finally:
        engine.release()
    scheduler = SchedulerConfig.of_table(writer.table.config, given)
    return _followed_by_services(report, scheduler, writer, given)


def delete_partitions(
    writer: TableWriter,
    partitions: str | Sequence[str],
    options: Mapping[str, str] | None,
    extra_metadata: Mapping[str, str] | None,
    token: str | None,
) -> CommitReport:
    """See `LakeTable.delete_partitions`."""
    given, names = writer.given(options, SettingPlace.WRITE), one_or_several(partitions)
    operation, config = writer.planned(WriteOperation.DELETE_PARTITION, given)
    scheduler = SchedulerConfig.of_table(writer.table.config, given).moving_no_rows()
    request = writer.request(operation, config, extra_metadata=extra_metadata, token=token)
    report = report_write(writer.delete_partitions(request, names))
    return _followed_by_services(report, scheduler, writer, given)


def open_services(
    writer: TableWriter, given: Mapping[str, str], spark: SparkSession | OpenSpark | None = None
) -> TableServices:
    """The table's services, with the checked settings `given` over its own.

    Those that move rows do so in this process where their work is small, else in the session that
    `spark` is or gives, without it in one of their own.
    """
    writer.table.before_deletion = partial(_before_deletion, writer.table, given)
    return TableServices(writer, given, ServiceEngineBySize(writer.table, spark))


def followed(table: HoodieTable, given: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Publish what was committed, and register it in metastores, where the table, or a setting in
    `given`, asks for it; in words what came of it."""
    asked = _asked(table, given, PUBLISH).lower() == ICEBERG
    notes = _published(table, given or {}) if asked else ()
    return (*notes, *_synced(table, given))


def followed_after_restore(
    table: HoodieTable, given: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The same, and published whenever the table is: what was lists files that are gone."""
    if _asked(table, given, PUBLISH).lower() == ICEBERG:
        return followed(table, given)
    try:
        notes = _published(table, given or {}) if is_published(table, given) else ()
    except TidelineError as error:
        notes = (f"whether the table is published as Iceberg could not be read: {error}",)
    return (*notes, *_synced(table, given))


def _asked(table: HoodieTable, given: Mapping[str, str] | None, setting: str) -> str:
    return {**table.config.properties, **(given or {})}.get(setting, "").strip()


def _synced(table: HoodieTable, given: Mapping[str, str] | None) -> tuple[str, ...]:
    if not _asked(table, given, SYNC):
        return ()
    # Registering needs Arrow, which not everybody installs who runs services.
    try:
        from tideline.registration.follow import sync_after_commit
    except ImportError as error:
        return (f"what is committed is not registered in a metastore: {error}",)

    return sync_after_commit(table, given or {})


def _published(table: HoodieTable, given: Mapping[str, str]) -> tuple[str, ...]:
    # Publishing needs Arrow, which not everybody installs who runs services.
    try:
        from tideline.publication.follow import publish_after_commit
    except ImportError as error:
        return (f"what is committed is not published as Iceberg: {error}",)

    note = publish_after_commit(table, given)
    return () if note is None else (note,)


def _before_deletion(table: HoodieTable, given: Mapping[str, str], paths: Collection[str]) -> None:
    """Nothing to do for a table that was never published."""
    if paths and _is_published(table, given):
        from tideline.publication.follow import make_way

        make_way(table, paths, given)


def _is_published(table: HoodieTable, given: Mapping[str, str]) -> bool:
    try:
        return is_published(table, given)
    except (ConfigError, StorageUnavailableError) as error:
        message = (
            "nothing was deleted, because it cannot be read whether snapshots that are published "
            f"as Iceberg need the files: {error.message}"
        )
        raise type(error)(
            message, table=error.table or table.uri, path=error.path, value=error.value
        ) from error


def _committed(
    batch: RowBatch, writer: TableWriter, request: WriteRequest, given: Mapping[str, str]
) -> CommitReport:
    scheduler = SchedulerConfig.of_table(writer.table.config, given)
    report = report_write(batch.write(writer, request))
    return _followed_by_services(report, scheduler, writer, given, batch.spark)


def _followed_by_services(
    report: CommitReport,
    scheduler: SchedulerConfig,
    writer: TableWriter,
    given: Mapping[str, str],
    spark: SparkSession | None = None,
) -> CommitReport:
    """Raises FailedAfterCommitError: the commit took place and is not to be repeated."""
    report = replace(report, notes=(*report.notes, *followed(writer.table, given)))
    if report.is_repeat:
        return report
    try:
        services = open_services(writer, given, spark)
        done = run_after_commit(services, scheduler)
    except TidelineError as error:
        raise FailedAfterCommitError(
            "the write is committed, do not repeat it; a service that was to follow it "
            f"failed: {error.message}",
            table=writer.table.location.uri,
            instant=report.instant,
            path=error.path,
            value=error.value,
        ) from error
    ran = any(after_commit.run is not None and after_commit.run.done for after_commit in done)
    notes = followed(writer.table, given) if ran else ()
    return replace(report, services=done, notes=(*report.notes, *notes))
