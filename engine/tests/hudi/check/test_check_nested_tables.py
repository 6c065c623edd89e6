"""Another table in a table's folder: checks, repairs, services and readers leave it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tideline.check_finding import Severity
from tideline.errors import InvalidDataError, UnsupportedTableError
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.table.table_config import TableType
from tideline.services.explanation import NotDue
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

INNER = ("p0/inner", "inner", "deep/below/inner")


@pytest.fixture(params=[TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ], ids=["cow", "mor"])
def outer(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    """A table whose first commits are archived, with copies of itself and a stranger below."""
    table = SmallTable.in_memory(table_type=request.param, ordering=("v",))
    for version in range(1, 3):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(8), version))
    older = table.copy()
    for version in range(3, 7):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(8), version))
    archive(table)
    store = table.store()
    for place in INNER:
        for path, body in contents(older).items():
            store.put(f"{place}/{path}", body)
    older.forget()
    yield table
    table.forget()


def archive(table: SmallTable) -> None:
    opened = open_fresh(table.location, clock=table.clock)
    with opened.lock().acquire(timeout_s=60):
        done = execute_archival(opened, ArchivalConfig(commits_min=2, commits_max=3))
    assert done.instants


def contents(table: SmallTable, below: str = "") -> dict[str, bytes]:
    store = table.store()
    paths = (info.path for info in store.list(below) if "/.locks/" not in info.path)
    return {path: store.get(path) for path in paths}


def inner_contents(table: SmallTable) -> Mapping[str, bytes]:
    return {path: body for place in INNER for path, body in contents(table, place).items()}


def test_repairs_leave_the_inner_tables_alone(outer: SmallTable) -> None:
    before = contents(outer)
    findings = outer.lake().check(keys=True)
    assert [(finding.severity, finding.path, finding.repair) for finding in findings] == [
        (Severity.NOTE, place, None) for place in sorted(INNER)
    ]
    assert outer.lake().repair() == ()
    assert contents(outer) == before
    for place in INNER:
        inner = SmallTable(StoreLocation.of(f"{outer.location.uri}/{place}"), outer.clock)
        assert [finding for finding in inner.lake().check(keys=True) if finding.repair] == []
        assert {v for _, v in inner.merged_values()} == {2}


def test_reads_and_writes_see_each_key_once(outer: SmallTable) -> None:
    assert open_fresh(outer.location, clock=outer.clock).files.partitions() == ("p0", "p1")
    assert outer.merged_values() == [(f"k{number:03d}", 6) for number in range(8)]
    outer.write("upsert", batch(range(8), 7))
    assert outer.merged_values() == [(f"k{number:03d}", 7) for number in range(8)]


def test_services_and_overwrites_leave_the_inner_tables_alone(outer: SmallTable) -> None:
    before = inner_contents(outer)
    outer.write("insert_overwrite_table", batch(range(4), 8))
    for v in (9, 10, 11):
        outer.fake_clock.advance(60)
        outer.write("upsert", batch(range(4), v))
    outer.fake_clock.advance(3600)
    table = open_fresh(outer.location, clock=outer.clock)
    done = clean_table(table, CleaningConfig(commits_retained=1))
    assert not isinstance(done, NotDue)
    assert sum(len(cleaning_done.files) for cleaning_done in done) > 0
    assert outer.merged_values() == [(f"k{number:03d}", 11) for number in range(4)]
    assert inner_contents(outer) == before


def test_a_partition_is_not_made_where_another_table_is(outer: SmallTable) -> None:
    before = inner_contents(outer)
    for part in ("inner", "inner/new", "deep/below"):
        rows = batch(range(2), 9).set_column(1, "part", [[part, part]])
        with pytest.raises(InvalidDataError, match=f"'{part}' and the other table in '.*inner'"):
            outer.write("insert", rows)
    assert inner_contents(outer) == before


def test_commits_into_the_folder_of_another_table_are_an_error(outer: SmallTable) -> None:
    outer.store().put("p1/.hoodie/hoodie.properties", b"")
    found = [(finding.severity, finding.path) for finding in outer.lake().check()]
    assert (Severity.ERROR, "p1") in found


def test_a_repair_does_not_follow_a_link_out_of_the_folder(tmp_path: Path) -> None:
    table = SmallTable.create(StoreLocation.of(str(tmp_path / "table")))
    table.write("insert", batch(range(4), 1))
    outside = LocalStore(str(tmp_path / "outside"))
    outside.put(".hoodie_partition_metadata", b"")
    outside.put("11111111-0_0-0-0_20200101000000000.parquet", b"")
    (tmp_path / "table" / "p9").symlink_to(tmp_path / "outside")
    for act in (table.lake().check, table.lake().repair, table.rows):
        with pytest.raises(UnsupportedTableError, match=r"leads out of the folder.*p9"):
            act()
    assert len(list(outside.list())) == 2
    (tmp_path / "table" / "p9").unlink()
    assert table.lake().check() == ()
