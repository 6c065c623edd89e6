"""Erasing rows: nothing on disk holds them afterwards, and the proof says what did and does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.cli.main import run
from tideline.erasure import execute
from tideline.erasure.report import Version
from tideline.errors import ConfigError
from tideline.hudi.services.runs import TableServices
from tideline.hudi.table.table_config import TableType
from tideline.publication.published_table import PublishedTable
from tideline.testing.plain_reader import stored_rows
from tideline.testing.written_table import WrittenTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("who", pa.string()), ("v", pa.int64())]
)
PERSON = "zaphod@example.org"
WHERE = f"who = '{PERSON}'"
KINDS = [
    (table_type, version)
    for table_type in (TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ)
    for version in (6, 9)
]


def made(spark: SparkSession, folder: Path, table_type: TableType, version: int) -> WrittenTable:
    """Two persons in two partitions, both updated twice; the person to erase is in one."""
    table = WrittenTable.create(
        spark,
        folder,
        SCHEMA,
        partition_by=["day"],
        ordering=["v"],
        table_type=table_type,
        table_version=version,
    )
    for v in range(3):
        table.write([(1, "d1", PERSON, v), (2, "d1", "ford", v), (3, "d2", "trillian", v)])
    return table


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0].name.lower()}-{kind[1]}")
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> WrittenTable:
    return made(spark, tmp_path / "t", *request.param)


@pytest.fixture
def merge_on_read(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    return made(spark, tmp_path / "t", TableType.MERGE_ON_READ, 9)


def files_with_the_person(folder: Path) -> Iterator[Path]:
    """By raw bytes, `.hoodie` included, and by every column of Parquet files and every bound in
    manifests, which compress."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        is_there = PERSON.encode() in path.read_bytes()
        if path.suffix == ".parquet" and ".hoodie" not in path.parts:
            is_there |= PERSON in pq.ParquetFile(path).read().column("who").to_pylist()
        if path.suffix == ".avro" and path.parent.name == "metadata":
            with path.open("rb") as stream:
                # A bound has the first 16 characters, an upper one another character at its end.
                is_there |= PERSON[:15] in str(list(fastavro.reader(stream)))
        if is_there:
            yield path.relative_to(folder)


@pytest.mark.slow_with("copy_on_write-6", "merge_on_read-9")
def test_no_file_holds_the_rows_afterwards(table: WrittenTable) -> None:
    held = list(files_with_the_person(table.folder))
    done = table.lake.erase(WHERE, prove=True)
    assert done.before and done.after
    assert [file.path for file in done.before.holding] == [str(path) for path in held]
    assert (done.before.rows, done.matching) == (3, 1)
    assert {file.version for file in done.before.holding} <= {Version.NEWEST, Version.OLDER}
    assert (done.after.rows, done.after.unread, done.remarks) == (0, (), ())
    assert done.is_complete and done.deleted_at
    assert list(files_with_the_person(table.folder)) == []
    kept = [(row["id"], row["who"], row["v"]) for row in stored_rows(table.folder)]
    assert sorted(kept) == [(2, "ford", 2), (3, "trillian", 2)]


@pytest.mark.slow_with("copy_on_write-9", "merge_on_read-6")
def test_a_preview_changes_nothing(table: WrittenTable) -> None:
    kept = table.lake.savepoint()
    files = sorted(table.folder.rglob("*"))
    found = table.lake.erase(WHERE, prove=True, dry_run=True)
    assert (found.matching, found.savepoints) == (1, (kept.instant,))
    assert found.before and found.before.rows == 3 and found.after is None
    assert sorted(table.folder.rglob("*")) == files


@pytest.mark.slow_with("copy_on_write-6", "merge_on_read-9")
def test_a_savepoint_is_named_and_given_up_only_when_asked(table: WrittenTable) -> None:
    kept = table.lake.savepoint()
    commits = len(table.lake.timeline())
    with pytest.raises(ConfigError, match="1 savepoint in the way") as refused:
        table.lake.erase(WHERE)
    assert str(kept.instant) in str(refused.value)
    assert len(table.lake.timeline()) == commits
    done = table.lake.erase(WHERE, prove=True, drop_savepoints=True)
    assert done.before and any(kept.instant in file.savepoints for file in done.before.holding)
    assert done.is_complete and done.savepoints == (kept.instant,)
    assert table.lake.savepoints() == ()
    assert list(files_with_the_person(table.folder)) == []


@pytest.mark.parametrize("step", ["delete", "compaction", "clean"])
def test_a_run_that_died_is_finished_by_the_next(
    merge_on_read: WrittenTable, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        owner, name = {
            "delete": (execute, "_execute"),
            "compaction": (TableServices, "run"),
            "clean": (execute, "clean_table"),
        }[step]
        patched.setattr(owner, name, die)
        with pytest.raises(KeyboardInterrupt):
            merge_on_read.lake.erase(WHERE)
    assert list(files_with_the_person(merge_on_read.folder))
    done = merge_on_read.lake.erase(WHERE, prove=True)
    assert (done.matching, done.deleted_at, done.is_complete) == (0, None, True)
    assert list(files_with_the_person(merge_on_read.folder)) == []


@pytest.mark.slow_with("copy_on_write-6", "merge_on_read-9")
def test_a_clean_that_already_ran_does_not_keep_older_versions(table: WrittenTable) -> None:
    table.lake.delete(WHERE)
    table.lake.run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    done = table.lake.erase(WHERE, prove=True)
    assert done.is_complete
    assert list(files_with_the_person(table.folder)) == []


@pytest.mark.slow_with("copy_on_write-6", "merge_on_read-9")
def test_what_belongs_to_no_version_or_is_not_read_is_named(table: WrittenTable) -> None:
    base = next(path for path in files_with_the_person(table.folder) if path.suffix == ".parquet")
    strange = base.with_name(
        "99999999-0000-0000-0000-000000000000-0_0-1-0_20300101000000000.parquet"
    )
    shutil.copy(table.folder / base, table.folder / strange)
    (table.folder / "extract.csv").write_text(PERSON)
    (table.folder / "d2" / ("1" + strange.name[1:])).write_text("no Parquet")
    done = table.lake.erase(WHERE, prove=True)
    assert done.after and not done.is_complete
    (left,) = done.after.holding
    assert (left.path, left.rows, left.version) == (str(strange), 1, Version.NONE)
    unread = {Path(file.path).name for file in done.after.unread}
    assert unread == {"extract.csv", "1" + strange.name[1:]}


def test_bounds_and_keys_go_with_the_rows(
    merge_on_read: WrittenTable, capsys: pytest.CaptureFixture[str]
) -> None:
    merge_on_read.write([(2, "d1", "ford", 9)], options={"hoodie.metadata.enable": "true"})
    made = ("column_stats", "partition_stats", "record_index")
    for name in made:
        merge_on_read.lake.indexes().create(name)
    assert run(["erase", str(merge_on_read.folder), "--where", WHERE, "--yes"]) == 0
    said = capsys.readouterr().out.splitlines()
    whole = f"Dropped {', '.join(made)} from Hudi's metadata table"
    assert [line for line in said if line.startswith(whole)]
    assert not [line for line in said if line.startswith("Not done")]
    assert merge_on_read.lake.hoodie_table.config.metadata_partitions == ("files",)
    assert list(files_with_the_person(merge_on_read.folder)) == []


def test_a_publication_loses_the_snapshots_that_listed_the_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(spark, tmp_path / "t", TableType.COPY_ON_WRITE, 9)
    table.lake.publish()
    table.write([(2, "d1", "ford", 9)])
    table.lake.publish()
    done = table.lake.erase(WHERE, prove=True)
    # Two that listed the rows, and the one that gave bounds of the files it took out.
    assert done.is_complete and done.iceberg_snapshots_dropped == 3
    loaded = PublishedTable(table.lake.hoodie_table).load()
    assert loaded and len(loaded.metadata.snapshots) == 1
    assert list(files_with_the_person(table.folder)) == []


def test_rows_of_logs_leave_the_publication_that_has_copies_of_them(
    merge_on_read: WrittenTable,
) -> None:
    merge_on_read.lake.publish(merge=True)
    copies = list((merge_on_read.folder / "metadata" / "merged").rglob("*.parquet"))
    assert copies
    done = merge_on_read.lake.erase(WHERE, prove=True)
    assert done.is_complete
    rows = [path for path in copies if path.name.endswith(".rows.parquet")]
    assert done.before and not done.before.unread
    assert {
        holding_file.path: holding_file.rows
        for holding_file in done.before.holding
        if "merged" in holding_file.path
    } == {
        path.relative_to(merge_on_read.folder).as_posix(): 1 for path in rows if "d1" in path.parts
    }
    assert [path for path in copies if path.exists()] == []
    assert list(files_with_the_person(merge_on_read.folder)) == []


@pytest.mark.slow_with(
    "copy_on_write-6-False",
    "copy_on_write-6-True",
    "copy_on_write-9-False",
    "merge_on_read-6-True",
    "merge_on_read-9-False",
    "merge_on_read-9-True",
)
@pytest.mark.parametrize("prove", [False, True])
def test_a_condition_that_is_none_changes_nothing(table: WrittenTable, prove: bool) -> None:
    commits = len(table.lake.timeline())
    with pytest.raises(ConfigError, match="Spark refuses the condition"):
        table.lake.erase("nobody = 1", prove=prove)
    assert len(table.lake.timeline()) == commits


def test_the_command_reports_files_and_what_it_does_not_reach(
    merge_on_read: WrittenTable, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(merge_on_read.folder)
    kept = merge_on_read.lake.savepoint()
    assert run(["erase", uri, "--where", WHERE]) == 2
    assert str(kept.instant) in capsys.readouterr().err
    assert run(["erase", uri, "--where", WHERE, "--prove", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "Before: 3 rows on disk" in shown and f"kept by savepoint {kept.instant}" in shown
    assert "Would erase 1 row of the table." in shown
    arguments = ["erase", uri, "--where", WHERE, "--prove", "--drop-savepoints"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "After: 0 rows on disk in 0 files" in shown and "Not reached: landing folders" in shown
    (merge_on_read.folder / "extract.csv").write_text(PERSON)
    assert run([*arguments, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["after"]["unread"][0]["path"] == "extract.csv"
    assert not report["is_complete"]
