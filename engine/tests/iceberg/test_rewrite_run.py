"""Rewrites from plan to commit, without Spark, of tables that PyIceberg wrote."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import ConfigError, ConflictError, CorruptTableError, UnknownOutcomeError
from tideline.formats.filter_parser import parse_filter
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.group_outcome import (
    GroupFailed,
    GroupOutcome,
    GroupResult,
)
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup, RewritePlan
from tideline.iceberg.services.rewrite_data_files.run import RewriteReport, rewrite_data_files
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_table_rewrite
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.open_table import IcebergTable
from tideline.services.benefit import Benefit
from tideline.testing.fake_clock import FakeClock

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.transforms import IdentityTransform

from tideline.iceberg.table.catalog_table import CatalogTable

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("price", pa.float64())])
REGIONS = ("AP", "EU", "US")
NAME = "lake.orders"
Engine = Callable[..., Generator[GroupOutcome]]


class Lake:
    """A catalog with one table of nine files in three partitions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = SqlCatalog(
            "test", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}"
        )
        self.catalog.create_namespace("lake")
        table = self.catalog.create_table(NAME, SCHEMA)
        with table.update_spec() as update:
            update.add_field("region", IdentityTransform(), "region")
        for start in (30, 0, 60):
            self.append(range(start, start + 30))

    def append(self, numbers: range) -> None:
        columns: dict[str, Any] = {
            "id": list(numbers),
            "region": [REGIONS[number % 3] for number in numbers],
            "price": [number / 4 for number in numbers],
        }
        self.catalog.load_table(NAME).append(pa.table(columns, schema=SCHEMA))

    def rows(self) -> list[dict[str, Any]]:
        rows = self.catalog.load_table(NAME).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def files(self) -> list[Path]:
        tasks = self.catalog.load_table(NAME).scan().plan_files()
        return [Path(task.file.file_path.removeprefix("file://")) for task in tasks]

    def stored(self) -> set[Path]:
        return set(self.folder.rglob("*.parquet"))

    def open(self) -> IcebergTable:
        return IcebergTable(CatalogTable(self.catalog, NAME, clock=FakeClock()))

    def plan(self) -> RewritePlan:
        table, options = self.open(), RewriteOptions.parse({"min-input-files": "2"}, properties={})
        return plan_table_rewrite(table.io, table.metadata, options)

    def rewrite(
        self, engine: Engine = write_groups_here, order: str | None = None, **options: str
    ) -> RewriteReport:
        given = {"min-input-files": "2"} | {
            name.replace("_", "-").replace("--", "."): value for name, value in options.items()
        }
        parsed = RewriteOptions.parse(given, properties={}, sort_order=order)
        return rewrite_data_files(self.open(), parsed, engine, clock=FakeClock())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def failing(number: int) -> Engine:
    """An engine that cannot write one of the groups."""

    def engine(
        io: FileIO, context: RewriteContext, groups: Sequence[FileGroup], **_: object
    ) -> Generator[GroupOutcome]:
        for outcome in write_groups_here(io, context, groups):
            if outcome.index == number and isinstance(outcome, GroupResult):
                io.remove_written(file.file_path for file in outcome.added)
                yield GroupFailed(number, CorruptTableError("a page is broken"))
            else:
                yield outcome

    return engine


def interrupted(number: int, work: Callable[[], object]) -> Engine:
    """An engine during which something else happens, after one of the groups."""

    def engine(
        io: FileIO, context: RewriteContext, groups: Sequence[FileGroup], **_: object
    ) -> Generator[GroupOutcome]:
        with closing(write_groups_here(io, context, groups)) as outcomes:
            for outcome in outcomes:
                yield outcome
                if outcome.index == number:
                    work()

    return engine


def test_all_partitions_in_one_commit(lake: Lake) -> None:
    before = lake.rows()
    report = lake.rewrite()
    assert lake.rows() == before
    assert len(lake.files()) == 3
    assert (report.files_rewritten, report.files_added) == (9, 3)
    assert report.bytes_added == sum(path.stat().st_size for path in lake.files())
    newest = lake.catalog.load_table(NAME).current_snapshot()
    assert newest is not None
    assert report.snapshot_ids == (newest.snapshot_id,)
    lake.append(range(90, 120))
    lake.catalog.load_table(NAME).delete("id = 7")
    assert [row["id"] for row in lake.rows()] == [*range(7), *range(8, 120)]


def test_a_rewrite_saves_what_a_scan_no_longer_opens_and_reads(lake: Lake) -> None:
    """As PyIceberg plans the scan, before and after."""

    def scanned() -> tuple[int, int]:
        files = lake.files()
        return len(files), sum(path.stat().st_size for path in files)

    (files, size_bytes), expected = scanned(), lake.plan().benefit
    report = lake.rewrite()
    files_after, bytes_after = scanned()
    assert report.benefit == Benefit(
        files_opened=files - files_after, bytes_scanned=size_bytes - bytes_after
    )
    assert (expected.files_opened, expected.delta_files) == (report.benefit.files_opened, 0)
    assert lake.rewrite().benefit == Benefit()


def test_what_is_well_already_is_left_alone(lake: Lake) -> None:
    lake.rewrite()
    snapshots = len(lake.catalog.load_table(NAME).metadata.snapshots)
    report = lake.rewrite()
    assert report.plan.groups == ()
    assert len(lake.catalog.load_table(NAME).metadata.snapshots) == snapshots


def test_a_filter_chooses_partitions(lake: Lake) -> None:
    before = lake.rows()
    options = RewriteOptions.parse({"min-input-files": "2"}, properties={})
    where = parse_filter("region = 'EU'")
    report = rewrite_data_files(
        lake.open(), options, write_groups_here, where=where, clock=FakeClock()
    )
    assert (report.files_rewritten, report.files_added) == (3, 1)
    assert len(lake.files()) == 7
    assert lake.rows() == before


def test_rows_are_sorted_when_asked(lake: Lake) -> None:
    lake.rewrite(order="id DESC")
    for path in lake.files():
        ids = pq.read_table(path, partitioning=None)["id"].to_pylist()
        assert ids == sorted(ids, reverse=True)
        assert len(ids) == 30
    with pytest.raises(ConfigError, match="no such column"):
        lake.rewrite(order="nothing", rewrite_all="true")


@pytest.mark.parametrize("order", [None, "id DESC"])
def test_a_table_that_used_to_be_partitioned_becomes_one_of_few_files(
    lake: Lake, order: str | None
) -> None:
    before = lake.rows()
    with lake.catalog.load_table(NAME).update_spec() as update:
        update.remove_field("region")
    lake.append(range(90, 120))
    lake.catalog.load_table(NAME).delete("id >= 90")
    report = lake.rewrite(order=order)
    assert lake.rows() == before
    assert (len(lake.files()), report.files_rewritten) == (1, 9)
    (path,) = lake.files()
    if order is not None:
        ids = pq.read_table(path, partitioning=None)["id"].to_pylist()
        assert ids == sorted(ids, reverse=True)
    assert lake.rewrite(order=order).plan.groups == ()


def test_a_failed_group_ends_the_rewrite_and_leaves_nothing(lake: Lake) -> None:
    before, stored = lake.rows(), lake.stored()
    with pytest.raises(CorruptTableError, match="a page is broken"):
        lake.rewrite(failing(1))
    assert lake.rows() == before
    assert lake.stored() == stored


def test_with_partial_progress_a_failed_group_spoils_no_other(lake: Lake) -> None:
    before, stored = lake.rows(), lake.stored()
    report = lake.rewrite(failing(1), partial_progress__enabled="true")
    assert lake.rows() == before
    assert [failed.index for failed in report.failed_groups] == [1]
    assert len(report.snapshot_ids) == 2
    assert (report.files_rewritten, report.files_added) == (6, 2)
    assert len(lake.stored()) == len(stored) + 2


def test_partial_progress_commits_as_often_as_configured(lake: Lake) -> None:
    options: dict[str, Any] = {
        "partial_progress__enabled": "true",
        "partial_progress__max_commits": "2",
    }
    report = lake.rewrite(**options)
    assert len(report.snapshot_ids) == 2
    assert report.files_added == 3


def test_a_conflict_voids_the_rewrite_and_removes_its_files(lake: Lake) -> None:
    stored = lake.stored()
    engine = interrupted(2, lambda: lake.catalog.load_table(NAME).delete("id = 4"))
    with pytest.raises(ConflictError, match="gone"):
        lake.rewrite(engine)
    assert [row["id"] for row in lake.rows()] == [*range(4), *range(5, 90)]
    assert len(lake.stored()) == len(stored) + 1  # what the delete wrote


def test_with_partial_progress_a_conflict_costs_one_commit(lake: Lake) -> None:
    # Row 4 is in the partition of the second group by number; which group that is may vary.
    engine = interrupted(0, lambda: lake.catalog.load_table(NAME).delete("id = 4"))
    report = lake.rewrite(engine, partial_progress__enabled="true")
    assert [row["id"] for row in lake.rows()] == [*range(4), *range(5, 90)]
    assert len(report.snapshot_ids) + len(report.failed_commits) == 3
    assert len(report.failed_commits) <= 1
    referenced = {*lake.files()}
    new = {path for path in lake.stored() if path.stat().st_size and path in referenced}
    assert new == referenced


def test_too_many_failed_commits_are_an_error(lake: Lake) -> None:
    engine = interrupted(0, lambda: lake.catalog.load_table(NAME).delete("id in (3, 4, 5)"))
    with pytest.raises(ConflictError, match="commits of a rewrite failed"):
        lake.rewrite(
            engine,
            partial_progress__enabled="true",
            partial_progress__max_failed_commits="0",
        )
    assert [row["id"] for row in lake.rows()] == [*range(3), *range(6, 90)]


def test_an_unknown_outcome_keeps_the_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = lake.stored()

    def never_answers(*_: object) -> None:
        raise CommitStateUnknownException("gateway timeout")

    monkeypatch.setattr(lake.catalog, "commit_table", never_answers)
    with pytest.raises(
        UnknownOutcomeError, match=r"nothing was deleted.*show .* --snapshot [0-9]+"
    ):
        lake.rewrite()
    assert len(lake.stored()) == len(stored) + 3


def test_groups_with_other_rows_than_the_metadata_says_are_not_committed(lake: Lake) -> None:
    before, stored = lake.rows(), lake.stored()

    def forgetful(
        io: FileIO, context: RewriteContext, groups: Sequence[FileGroup], **_: object
    ) -> Generator[GroupOutcome]:
        for outcome in write_groups_here(io, context, groups):
            if isinstance(outcome, GroupResult) and outcome.index == 1:
                io.remove_written(file.file_path for file in outcome.added)
                outcome = GroupResult(1, ())
            yield outcome

    with pytest.raises(CorruptTableError, match="30 rows by its metadata, 0 as read"):
        lake.rewrite(forgetful)
    assert lake.rows() == before
    assert lake.stored() == stored


def test_an_interrupted_rewrite_removes_what_it_wrote(lake: Lake) -> None:
    stored = lake.stored()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.rewrite(interrupted(1, stop))
    assert lake.stored() == stored
