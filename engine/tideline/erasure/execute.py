"""Erasing rows, so that a run that died is finished by running it again.

1. Savepoints keep files with the rows from being cleaned, as do pinned readers: unless savepoints
   are to be given up, nothing is done.
2. Landing prefixes that are named are searched; where it was asked for, their files with such rows
   are deleted, so that no ingest brings them back.
3. Dead writers are rolled back, and the rows that match are deleted, as one commit. Died after:
   the rows no longer match, and the next run continues with what follows.
4. In a merge-on-read table every file group with logs is compacted. A pending compaction is
   finished first, by this run or the next.
5. The savepoints are given up. Died after: nothing keeps older versions, the next run cleans them.
6. An Iceberg publication comes up to the newest commit and loses its older snapshots, whose files
   go now, bounds of files that were removed, and files of publications that died: a new snapshot
   first voids those that are under way.
7. A clean leaves the newest version of each file group alone. A pending clean is finished first.
8. Partitions of the metadata table that hold values of rows are dropped.

What happens concurrently is not undone: rows that match and come in meanwhile stay, and the proof
says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tideline.erasure.prove import prove
from tideline.erasure.report import Erasure, LandingSearch
from tideline.erasure.source_files import NO_LANDING, LandingRequest
from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.capabilities.guard import require
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.metadata_table.keep import drop_values
from tideline.hudi.read.table_scan import scan_schema
from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.compaction.config import StrategyKind
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.savepoint.execute import delete_savepoint, list_savepoints
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import without_meta_fields
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.table_writer import TableWriter
from tideline.publication.expiry import (
    drop_old_bounds,
    drop_snapshots,
    remove_unlisted,
    unlisted_files,
)
from tideline.publication.publish import publish_table
from tideline.publication.published_table import PublishedTable
from tideline.services.explanation import NotDue
from tideline.settings.setting import SettingPlace
from tideline.spark.read.matching import count_in_table
from tideline.spark.session.spark_session import spark_session
from tideline.wording import counted
from tideline.write_and_serve import delete_rows, open_services

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_COMPACT_ALL = {
    **COMPACTION.whenever_asked,
    "hoodie.compaction.strategy": StrategyKind.UNBOUNDED.value,
    "hoodie.table.services.incremental.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """Which rows to erase. `proves`: count them in every file, before and after. `landing` are the
    prefixes to search, and `deletes_landing_files` whether files with rows go from there."""

    where: str | Column
    proves: bool = False
    drops_savepoints: bool = False
    landing: LandingRequest = NO_LANDING
    is_preview: bool = False


def erase_rows(
    writer: TableWriter,
    request: ErasureRequest,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> Erasure:
    """See `LakeTable.erase`."""
    table = writer.table
    _refuse_unerasable(table)
    if request.landing.places:
        spark = spark or spark_session(locations=[table.location, *request.landing.places])
    given = writer.given(options, SettingPlace.SERVICE)
    services = open_services(writer, {**given, **_COMPACT_ALL}, spark)
    config = _cleaning_config(services)
    savepoints = tuple(savepoint.instant for savepoint in list_savepoints(table))
    if not request.is_preview:
        _refuse_kept(table, request, savepoints, config)
    before = prove(table, request.where, spark) if request.proves else None
    matching = count_in_table(spark, table, request.where)
    report = Erasure(
        str(request.where),
        matching,
        savepoints=savepoints,
        before=before,
        landing=_searched(table, request, spark),
        is_preview=request.is_preview,
    )
    if request.is_preview:
        return report
    writer.recover(())
    deleted_at = _delete(writer, request, spark) if matching else None
    report = replace(report, deleted_at=deleted_at)
    report = _execute(services, config, report)
    after = prove(table, request.where, spark) if request.proves else None
    return replace(report, after=after)


def _refuse_unerasable(table: HoodieTable) -> None:
    needed = [Permission.WRITE, Permission.CLEANING]
    if table.config.table_type is TableType.MERGE_ON_READ:
        needed.append(Permission.COMPACTION)
    for permission in needed:
        require(table, permission)
    if table.config.bootstrap_base_path is not None:
        message = "rows of a bootstrapped table are in files outside it, which are not erased"
        raise UnsupportedTableError(message, table=table.uri)


def _refuse_kept(
    table: HoodieTable,
    request: ErasureRequest,
    savepoints: tuple[InstantTime, ...],
    config: CleaningConfig,
) -> None:
    """Raise ConfigError for what keeps old versions of files."""
    if savepoints and not request.drops_savepoints:
        named = ", ".join(map(str, savepoints))
        count = counted(len(savepoints), "savepoint")
        raise ConfigError(
            f"{count} in the way, whose files may hold the rows: give them up with "
            "--drop-savepoints (drop_savepoints=True), or one by one",
            table=table.uri,
            value=named,
        )
    if config.pinned_instants:
        raise ConfigError(
            "readers are pinned to older versions: erase when they are done and "
            "tideline.clean.pinned.instants is taken away",
            table=table.uri,
            value=", ".join(map(str, config.pinned_instants)),
        )


def _cleaning_config(services: TableServices) -> CleaningConfig:
    """Only the newest version of each file group is kept; a clean is due, whatever was before."""
    return replace(
        CleaningConfig.from_settings(services.context.settings),
        policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS,
        file_versions_retained=1,
        trigger_commits=0,
        is_incremental=False,
    )


def _searched(
    table: HoodieTable, request: ErasureRequest, spark: SparkSession | None
) -> tuple[LandingSearch, ...]:
    if spark is None or not request.landing.places:
        return ()
    columns = without_meta_fields(scan_schema(table, table.timeline()))
    return request.landing.search(spark, request.where, columns, is_preview=request.is_preview)


def _delete(writer: TableWriter, request: ErasureRequest, spark: SparkSession | None) -> str:
    """Delete the rows that match; returns the commit. No service of the table's own follows: those
    that do are ours."""
    options = {"hoodie.table.services.enabled": "false"}
    return delete_rows(writer, request.where, options, spark=spark).instant


def _execute(services: TableServices, config: CleaningConfig, report: Erasure) -> Erasure:
    """Steps 4 to 8."""
    table = services.table
    remarks: list[str] = []
    compacted: tuple[InstantTime, ...] = ()
    if table.config.table_type is TableType.MERGE_ON_READ:
        run = services.run(COMPACTION)
        instants = (done.report().instant for done in run.done)
        compacted = tuple(instant for instant in instants if instant is not None)
        remarks += _logs_left(table, run.not_due)
    for instant in report.savepoints:
        delete_savepoint(table, instant)
    dropped = _drop_snapshots(table, remarks)
    before = _older_versions(table)
    cleaned = clean_table(table, config)
    done = () if isinstance(cleaned, NotDue) else cleaned
    left = len(before & _older_versions(table))
    if left:
        kept = "pending plans, new savepoints or another process's clean are in the way"
        why = cleaned.reason if isinstance(cleaned, NotDue) else kept
        remarks.append(f"{counted(left, 'older version')} of file groups not cleaned: {why}")
    with table.lock().acquire():
        partitions_dropped = drop_values(table)
    return replace(
        report,
        compacted=compacted,
        files_cleaned=tuple(file.path for clean in done for file in clean.files),
        partitions_dropped=partitions_dropped,
        iceberg_snapshots_dropped=dropped,
        remarks=tuple(remarks),
    )


def _logs_left(table: HoodieTable, not_due: NotDue | None) -> list[str]:
    """Why logs are still there, if any are."""
    view = table.files.view(table.timeline())
    groups = sum(
        bool(file_slice.log_files)
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
    )
    if not groups:
        return []
    why = not_due.reason if not_due else "others wrote or planned meanwhile"
    return [f"{counted(groups, 'file group')} with logs not compacted: {why}"]


def _older_versions(table: HoodieTable) -> set[tuple[FileGroupId, InstantTime]]:
    """Every version of a file group that is not the newest, or was replaced."""
    view = table.files.view(table.timeline())
    return {
        (group.id, file_slice.base_instant)
        for partition in view.partitions
        for group in view.all_file_groups(partition)
        for file_slice in group.slices[group.id not in view.replaced :]
    }


def _drop_snapshots(table: HoodieTable, remarks: list[str]) -> int:
    """Publish the newest commit, and drop every snapshot of before."""
    place = PublishedTable(table)
    try:
        if place.load() is None:
            return 0
    except UnsupportedTableError as error:
        remarks.append(f"Iceberg metadata was left as it is: {error.message}")
        return 0
    publish_table(table)
    unlisted = unlisted_files(place)
    drop_old_bounds(place, voids_others=bool(unlisted))
    loaded = place.load()
    assert loaded is not None, "a publication does not go away"
    current = loaded.metadata.current_snapshot_id
    ids = (
        snapshot.snapshot_id
        for snapshot in loaded.metadata.snapshots
        if snapshot.snapshot_id != current
    )
    dropped = drop_snapshots(place, tuple(ids))
    remove_unlisted(place, unlisted)
    return dropped
