"""Rewrites give way to writers that change rows in place, and expiry keeps what they began from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.errors import ConflictError
from tideline.iceberg.commit.changed_partitions import changed_by, changed_lately
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.manifest.manifest_entry import FileContent
from tideline.iceberg.scan.delete_index import DELETE_PATH_FIELD_ID
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.options import QUIET_FOR, RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import RewritePlan
from tideline.iceberg.services.rewrite_data_files.run import RewriteReport, rewrite_data_files
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_table_rewrite
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_model_files import ModelFiles
from tideline.testing.iceberg_row_delta import RowDelta

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ValidationException
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from tideline.iceberg.table.catalog_table import CatalogTable

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])
REGIONS = ("AP", "EU", "US")
NAME = "lake.orders"
MINUTE_MS = 60_000


class Lake:
    """A catalog with one table of nine files in three partitions; PyIceberg writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        uri = f"sqlite:///{folder}/c.db"
        self.catalog = SqlCatalog("test", uri=uri, warehouse=f"file://{folder}")
        self.catalog.create_namespace("lake")
        table = self.catalog.create_table(NAME, SCHEMA)
        with table.update_spec() as update:
            update.add_field("region", IdentityTransform(), "region")
        for start in (0, 30, 60):
            self.table().append(rows(range(start, start + 30)))

    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def ids(self) -> list[int]:
        return sorted(self.table().scan().to_arrow()["id"].to_pylist())

    def files(self) -> dict[str, int]:
        """How many data files each partition has."""
        found = [str(task.file.partition[0]) for task in self.table().scan().plan_files()]
        return {region: found.count(region) for region in REGIONS}

    def open(self) -> IcebergTable:
        return IcebergTable(CatalogTable(self.catalog, NAME))

    def plan(self, quiet_ms: int = MINUTE_MS, now_ms: int | None = None) -> RewritePlan:
        table = self.open()
        return plan_table_rewrite(table.io, table.metadata, options(quiet_ms), now_ms=now_ms)

    def rewrite(
        self, quiet_ms: int = MINUTE_MS, meanwhile: Callable[[], object] | None = None, **more: str
    ) -> RewriteReport:
        def engine(*args: Any, **given: Any) -> Any:
            written = list(write_groups_here(*args, **given))
            if meanwhile is not None:
                meanwhile()
            yield from written

        return rewrite_data_files(self.open(), options(quiet_ms, **more), engine)

    def strangers(self) -> int:
        """Data files in the folder that no snapshot has."""
        known = set(self.table().inspect.all_files()["file_path"].to_pylist())
        return len({f"file://{path}" for path in self.folder.rglob("*.parquet")} - known)


def rows(numbers: range) -> pa.Table:
    regions = [REGIONS[number % 3] for number in numbers]
    return pa.table({"id": list(numbers), "region": regions}, schema=SCHEMA)


def options(quiet_ms: int, **more: str) -> RewriteOptions:
    given = {"min-input-files": "2", QUIET_FOR: str(quiet_ms), **more}
    return RewriteOptions.parse(given, properties={})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_changes_in_place_count_and_appends_equality_deletes_and_rewrites_do_not() -> None:
    model = IcebergModel.create()
    changes: list[tuple[Callable[[], object], list[tuple[str, ...]]]] = [
        (lambda: model.append(range(8)), []),
        (lambda: model.delete_by_value([1]), []),
        (lambda: model.upsert([2]), []),
        (lambda: model.append_and_delete([10, 11], [11]), []),
        (lambda: model.delete_by_position([4]), [("even",)]),
        (lambda: model.overwrite([3]), [("odd",)]),
        (lambda: commit_rewrite(model.operations(), model.plan_rewrite()), []),
    ]
    for change, expected in changes:
        change()
        head = model.metadata().ref_snapshot()
        assert head is not None
        found = changed_by(model.operations().io, [head])
        assert [partition for _, partition in found] == expected
    assert len(changed_lately(model.operations().io, model.metadata(), head, 0, now_ms=0)) == 0


@pytest.mark.parametrize("is_own", [True, False])
def test_deletes_between_files_of_their_own_commit_do_not_count_and_others_do(is_own: bool) -> None:
    """As Flink writes them: one delete file, about the data files between its bounds of paths."""
    model = IcebergModel.create()
    model.append([0])
    (old,) = (entry.data_file for entry in model.files().data())
    operations = model.operations()
    files = ModelFiles.of(operations.io, operations.load().metadata)
    added = [*files.write_rows([2], 0), *files.write_rows([4], 0)]
    paths = [file.file_path.encode() for file in (*added, *(() if is_own else (old,)))]
    deletes = replace(
        old,
        content=FileContent.POSITION_DELETES,
        file_path=f"{old.file_path}-deletes",
        lower_bounds={DELETE_PATH_FIELD_ID: paths[0]},
        upper_bounds={DELETE_PATH_FIELD_ID: paths[-1]},
    )
    model._commit(operations, RowDelta("overwrite", [*added, deletes]))
    head = model.metadata().ref_snapshot()
    assert head is not None
    assert len(changed_by(operations.io, [head])) == (0 if is_own else 1)


def test_what_was_changed_longer_ago_is_free_again(lake: Lake) -> None:
    lake.table().delete("region = 'EU' and id = 1")
    now_ms = SystemClock().now_ms()
    plan = lake.plan(now_ms=now_ms)
    assert {group.partition[0] for group in plan.groups} == {"AP", "US"}
    busy = [skipped for skipped in plan.skipped if skipped.reason is Reason.BUSY]
    assert [skipped.files for skipped in busy] == [3]
    later = lake.plan(now_ms=now_ms + 2 * MINUTE_MS)
    assert {group.partition[0] for group in later.groups} == set(REGIONS)
    assert len(lake.plan(0).groups) == 3


def test_appends_do_not_keep_a_rewrite_waiting(lake: Lake) -> None:
    report = lake.rewrite(meanwhile=lambda: lake.table().append(rows(range(90, 120))))
    assert (report.files_rewritten, report.files_added) == (9, 3)
    assert lake.ids() == list(range(120))


@pytest.mark.parametrize("parts", [{}, {"partial-progress.enabled": "true"}], ids=["one", "parts"])
def test_a_partition_that_another_writer_changes_meanwhile_is_left_to_it(
    lake: Lake, parts: dict[str, str]
) -> None:
    def change() -> None:
        lake.table().delete("region = 'EU' and id < 30")

    if parts:
        parts["partial-progress.max-commits"] = "1"
    report = lake.rewrite(MINUTE_MS, change, **parts)
    assert report.files_rewritten == 6
    assert lake.files() == {"AP": 1, "EU": 2, "US": 1}
    assert lake.ids() == [number for number in range(90) if number % 3 != 1 or number >= 30]
    (failed,) = report.failed_commits
    assert "another writer changes rows" in failed.reason
    assert lake.strangers() == 0


def test_a_rewrite_that_gives_way_everywhere_is_void(lake: Lake) -> None:
    with pytest.raises(ConflictError, match="another writer changes rows"):
        lake.rewrite(meanwhile=lambda: lake.table().delete("id < 3"))
    assert lake.files() == {"AP": 3, "EU": 3, "US": 3}
    assert lake.strangers() == 0


class _Meeting:
    """Does something right before the next commit of the catalog, as another process would."""

    def __init__(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]
    ) -> None:
        self.commit = lake.catalog.commit_table
        self.work = work
        self.monkeypatch = monkeypatch
        self.catalog = lake.catalog
        monkeypatch.setattr(lake.catalog, "commit_table", self)

    def __call__(self, *args: Any, **given: Any) -> Any:
        self.monkeypatch.setattr(self.catalog, "commit_table", self.commit)
        self.work()
        return self.commit(*args, **given)


def test_an_append_of_pyiceberg_that_meets_any_of_our_commits_succeeds(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_services() -> None:
        lake.rewrite()
        expire(lake, quiet_ms=MINUTE_MS)

    _Meeting(lake, monkeypatch, all_services)
    lake.table().append(rows(range(90, 120)))
    assert lake.ids() == list(range(120))


def test_a_writer_finds_the_snapshot_that_it_began_from(lake: Lake) -> None:
    """Without quietFor, Iceberg's rules let the snapshot and its files go, and the writer fails."""
    stale = lake.table()
    lake.table().append(rows(range(90, 120)))
    expire(lake, quiet_ms=MINUTE_MS)
    stale.append(rows(range(120, 150)))
    assert lake.ids() == list(range(150))
    lake.table().append(rows(range(150, 180)))
    expire(lake, quiet_ms=None)
    with pytest.raises(FileNotFoundError):
        stale.append(rows(range(180, 210)))


def expire(lake: Lake, *, quiet_ms: int | None) -> None:
    now_ms = SystemClock().now_ms()
    before_ms = None if quiet_ms is None else now_ms - quiet_ms
    wanted = ExpireOptions(now_ms, 1, superseded_before_ms=before_ms)
    done = execute_expire(CatalogTable(lake.catalog, NAME), wanted)
    assert done.outcome is None or isinstance(done.outcome, Committed)


def test_a_change_that_began_in_quiet_times_can_fail_as_docs_say(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing shows a writer before its first commit: what cannot be guaranteed."""
    _Meeting(lake, monkeypatch, lake.rewrite)
    with pytest.raises(ValidationException, match="Deleted data files were found"):
        lake.table().delete("region = 'EU' and id = 1")
    assert lake.ids() == list(range(90))
    lake.table().delete("region = 'EU' and id = 1")
    assert lake.ids() == [0, *range(2, 90)]
