"""Erasing rows of an Iceberg table: no file below it holds them, whatever deletes hid before."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tideline
from tideline.cli.main import run
from tideline.erasure import iceberg_rows
from tideline.erasure.iceberg_rows import IcebergErasure, erase_iceberg_rows
from tideline.erasure.report import Version
from tideline.erasure.source_files import LandingRequest
from tideline.errors import ConfigError, ConflictError, UnsupportedTableError
from tideline.iceberg.commit import exchange_files
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.snapshot import SnapshotRef
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_audit import referenced, set_ref, stored
from tideline.testing.iceberg_delete_table import DeleteTable

pytestmark = pytest.mark.spark

WHERE = "number IN (3, 7)"


def worn() -> DeleteTable:
    """3 is hidden by a position, 7 by a value in one file and visible in another. The value applies
    to a file without either, too."""
    table = DeleteTable.create()
    table.append("a", range(5))
    table.append("c", [100])
    table.append("b", range(5, 10))
    table.append("o", [7, 11], parity="odd")
    table.append("p", [13], parity="odd")
    table.delete({"a": [3]})
    delete_by_value(table, [7, 8])
    return table


def delete_by_value(table: DeleteTable, numbers: list[int]) -> None:
    path = f"{table.model.metadata().location}/data/values.parquet"
    file = table._write(path, {1: pa.array(numbers)}, "even")
    deletes = DataFile(
        FileContent.EQUALITY_DELETES,
        *(file.file_path, file.file_format, file.spec_id, file.partition),
        *(file.record_count, file.file_size_bytes),
        equality_ids=(1,),
    )
    table._commit("delete", deletes)


def opened(table: DeleteTable) -> IcebergTable:
    return IcebergTable(table.model.operations())


def erase(spark: SparkSession, table: DeleteTable, **given: Any) -> IcebergErasure:
    clock = table.model.clock
    return erase_iceberg_rows(opened(table), WHERE, spark=spark, clock=clock, **given)


def numbers_on_disk(table: DeleteTable) -> list[int]:
    """By parquet file, positions left out."""
    store = table.model.location.open()
    found: list[int] = []
    for info in store.list():
        if info.path.endswith(".parquet"):
            rows = pq.read_table(io.BytesIO(store.get(info.path)))
            if pa.types.is_integer(rows.schema.field(0).type):
                found += rows.column(0).to_pylist()
    return sorted(found)


def test_no_file_holds_the_rows_afterwards(spark: SparkSession) -> None:
    table = worn()
    visible = [0, 1, 2, 4, 5, 6, 7, 9, 11, 13, 100]
    done = erase(spark, table, proves=True)
    assert done.before and done.after
    assert done.before.rows == 4  # 3 and 7 twice, and the value of the delete file
    assert {file.version for file in done.before.holding} == {Version.NEWEST}
    assert (done.matching, done.files_rewritten, done.files_added) == (3, 4, 4)
    assert (done.after.rows, done.after.unread, done.is_complete) == (0, (), True)
    assert numbers_on_disk(table) == [number for number in visible if number != 7]
    assert stored(table.model) >= referenced(table.model)
    metadata = table.model.metadata()
    assert len(metadata.snapshots) == 1
    assert table.deletes() == []
    again = erase(spark, table, proves=True)
    assert (again.matching, again.files_rewritten, again.snapshot_id) == (0, 0, None)
    assert again.is_complete


@pytest.mark.parametrize("is_gone", [False, True], ids=["in its file, too", "its file is gone"])
def test_rows_that_position_deletes_keep_are_erased(spark: SparkSession, is_gone: bool) -> None:
    table = DeleteTable.create()
    table.append("a", [0, 3])
    table.append("b", [5, 9])
    table.append("p", [13], parity="odd")
    table.delete({"a": [1], "b": [0]}, keeps_rows=True)
    if is_gone:
        table.remove("a")
    done = erase(spark, table, proves=True)
    assert done.before and done.after
    newest = [file.rows for file in done.before.holding if file.version is Version.NEWEST]
    assert newest == ([1] if is_gone else [1, 1])
    assert (done.matching, done.files_rewritten) == ((0, 1) if is_gone else (1, 2))
    assert (done.after.rows, done.after.unread, done.is_complete) == (0, (), True)
    assert table.deletes() == []
    assert numbers_on_disk(table) == ([9, 13] if is_gone else [0, 9, 13])


def test_older_snapshots_hold_rows_until_they_are_expired(spark: SparkSession) -> None:
    table = DeleteTable.create()
    table.append("a", [3, 4])
    table.append("b", [5])
    table.remove("a")
    done = erase(spark, table, proves=True)
    assert done.before is not None
    assert [(file.rows, file.version) for file in done.before.holding] == [(1, Version.OLDER)]
    assert (done.matching, done.files_rewritten, done.snapshots_expired) == (0, 0, 2)
    assert done.is_complete
    assert numbers_on_disk(table) == [5]


def test_a_file_without_rows_left_is_not_written_again(spark: SparkSession) -> None:
    table = DeleteTable.create()
    table.append("a", [3, 7])
    table.append("b", [5])
    done = erase(spark, table, proves=True)
    assert (done.files_rewritten, done.files_added, done.is_complete) == (1, 0, True)
    assert numbers_on_disk(table) == [5]


def test_orphans_are_counted_and_named(spark: SparkSession) -> None:
    table = DeleteTable.create()
    table.append("a", [1, 3])
    store = table.model.location.open()
    store.put("data/orphan.parquet", store.get("data/a.parquet"))
    store.put("data/letter.txt", b"3")
    done = erase(spark, table, proves=True)
    assert done.after is not None
    held = [(file.path.rpartition("/")[2], file.version) for file in done.after.holding]
    assert held == [("orphan.parquet", Version.NONE)]
    assert [file.path.rpartition("/")[2] for file in done.after.unread] == ["letter.txt"]
    assert not done.is_complete


def test_a_preview_changes_nothing(spark: SparkSession) -> None:
    table = worn()
    before = stored(table.model)
    done = erase(spark, table, is_preview=True, proves=True)
    assert (done.matching, done.files_rewritten, done.after) == (3, 4, None)
    assert stored(table.model) == before


@pytest.mark.parametrize("step", ["find_dangling_deletes", "execute_expire"])
def test_a_run_that_died_is_finished_by_the_next(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def die(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    table = worn()
    with monkeypatch.context() as patched:
        patched.setattr(iceberg_rows, step, die)
        with pytest.raises(KeyboardInterrupt):
            erase(spark, table)
    assert 3 in numbers_on_disk(table)
    done = erase(spark, table, proves=True)
    assert (done.matching, done.is_complete) == (0, True)
    assert not {3, 7} & set(numbers_on_disk(table))


@pytest.mark.parametrize("times", [1, 3])
def test_another_writer_in_between_has_it_planned_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    table = worn()
    begun = exchange_files.commit_exchange
    left = iter(range(20, 20 + times))

    def overtaken(*arguments: Any, **given: Any) -> Any:
        for number in left:
            table.append(f"late{number}", [number, 7])
            break
        return begun(*arguments, **given)

    monkeypatch.setattr(iceberg_rows, "commit_exchange", overtaken)
    if times == 3:
        with pytest.raises(ConflictError, match="always first"):
            erase(spark, table)
        assert stored(table.model) == referenced(table.model)
        return
    done = erase(spark, table, proves=True)
    assert done.is_complete
    assert 20 in numbers_on_disk(table)


def test_an_interrupt_behind_the_commit_leaves_its_files(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = exchange_files.commit_exchange

    def interrupted(*given: Any) -> None:
        commit(*given)
        raise KeyboardInterrupt

    table = worn()
    monkeypatch.setattr(iceberg_rows, "commit_exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        erase(spark, table)
    listed = {path for path in referenced(table.model) if path.endswith(".parquet")}
    assert listed and listed <= stored(table.model)
    rows = tideline.open_iceberg(table.model.location.uri).to_arrow()
    assert 7 not in rows.column(0).to_pylist()


def test_what_is_in_the_way_is_named(spark: SparkSession) -> None:
    table = worn()
    head = table.model.metadata().current_snapshot_id
    assert head is not None
    set_ref(table.model, "audit", SnapshotRef(head, "tag"))
    with pytest.raises(ConfigError, match="branches and tags") as caught:
        erase(spark, table)
    assert caught.value.value == "audit"
    other = DeleteTable.create()
    other.model.location.open().put(".hoodie/hoodie.properties", b"")
    with pytest.raises(UnsupportedTableError, match="Hudi table"):
        erase(spark, other, proves=True)
    with pytest.raises(ConfigError, match="refuses the condition"):
        erase_iceberg_rows(opened(worn()), "nobody = 1", spark=spark)


def test_source_files_with_the_rows_are_deleted_where_that_is_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = worn()
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "gone.csv").write_text("number\n3\n12\n")
    (landing / "kept.csv").write_text("number\n12\n")
    searched = LandingRequest.of([str(landing)], {}, deletes_files=True)
    preview = erase(spark, table, landing=searched, is_preview=True)
    assert [(file.path, file.rows) for file in preview.landing[0].holding] == [("gone.csv", 1)]
    assert (landing / "gone.csv").exists() and not preview.is_complete
    done = erase(spark, table, proves=True, landing=searched)
    assert (done.is_complete, done.landing[0].deleted) == (True, ("gone.csv",))
    assert [path.name for path in landing.iterdir()] == ["kept.csv"]
    assert not any("landing" in place for place in done.not_reached)
    assert any("landing" in place for place in erase(spark, table).not_reached)


def test_the_command_reports_and_fails_where_something_is_left(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark
    made, table = DeleteTable.create(), tmp_path / "t"
    made.append("a", [1, 3])
    store = made.model.location.open()
    for info in store.list():
        path = table / info.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(info.path))
    arguments = ["iceberg", "erase", str(table), "--where", WHERE, "--prove"]
    assert run([*arguments, "--dry-run"]) == 0
    assert "Would erase 1 row" in capsys.readouterr().out
    assert run([*arguments, "--yes", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["matching"], done["after"]["rows"], done["is_complete"]) == (1, 0, True)
    assert any("Puffin" in place for place in done["not_reached"])
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a.csv").write_text("number\n3\n")
    assert run([*arguments, "--yes", "--delete-landing-files"]) == 2
    assert run([*arguments, "--yes", "--landing", str(landing)]) == 1
    assert "a.csv  1 row\n" in capsys.readouterr().out
    delete = ["--landing", str(landing), "--delete-landing-files", "--yes"]
    assert run([*arguments, *delete]) == 0
    assert "a.csv  1 row, deleted\n" in capsys.readouterr().out
    (table / "data/extract.csv").write_text("3")
    assert run([*arguments, "--yes"]) == 1
    output = capsys.readouterr().out
    assert "not counted" in output
    assert "Not reached: names of partitions" in output
