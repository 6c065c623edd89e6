"""What `tideline` exports: loaded on first use, typed, readable, with the errors one can expect."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, ObjectNotFoundError
from tideline.hudi.services.registry import all_services
from tideline.testing.iceberg_delete_table import DeleteTable


def test_every_exported_name_is_there_and_has_a_docstring() -> None:
    for name in tideline.__all__:
        found = getattr(tideline, name)
        assert name == "__version__" or found.__doc__, name
    assert dir(tideline) == tideline.__all__


def test_importing_tideline_loads_neither_spark_nor_arrow() -> None:
    code = (
        "import sys, tideline; tideline.TableNotFoundError; tideline.TableService; "
        "tideline.TableType; tideline.open_iceberg; "
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'pyarrow', 'kubernetes')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_enumerations_and_results_read_as_they_are_typed() -> None:
    assert repr(tideline.TableType.MERGE_ON_READ) == "TableType.MERGE_ON_READ"
    assert repr(tideline.WriteOperation.UPSERT) == "WriteOperation.UPSERT"
    assert repr(tideline.MergeMode.EVENT_TIME_ORDERING) == "MergeMode.EVENT_TIME_ORDERING"
    assert repr(tideline.KeyGeneratorKind.SIMPLE) == "KeyGeneratorKind.SIMPLE"
    assert repr(tideline.NotDue("nothing is old")) == "NotDue(reason='nothing is old')"
    paths = tuple(f"day=1/{number}.parquet" for number in range(10_000))
    explanation = tideline.Explanation("2 files are old", paths, bytes_deleted=1_500_000)
    assert repr(explanation) == ("Explanation('2 files are old', 10,000 paths, 1.5 MB to delete)")


def test_enumerations_are_taken_where_their_names_are(tmp_path: Path) -> None:
    table = tideline.create(
        str(tmp_path / "table"),
        record_key="id",
        partition_by="day",
        table_type=tideline.TableType.MERGE_ON_READ,
        key_generator=tideline.KeyGeneratorKind.SIMPLE,
        merge_mode=tideline.MergeMode.COMMIT_TIME_ORDERING,
    )
    assert table.hoodie_table.config.table_type is tideline.TableType.MERGE_ON_READ
    (cleaning,) = (service for service in all_services() if service.name == "cleaning")
    assert isinstance(cleaning, tideline.TableService)
    assert table.services().plan(cleaning) == table.plan("cleaning")
    operation, _ = table.writer.planned_write(tideline.WriteOperation.INSERT, None)
    assert operation is tideline.WriteOperation.INSERT


def test_opening_what_is_no_table_and_creating_one_twice_have_errors_of_their_own(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "table")
    with pytest.raises(tideline.TableNotFoundError) as missing:
        tideline.open(uri)
    assert isinstance(missing.value, ObjectNotFoundError)
    with pytest.raises(tideline.TableNotFoundError):
        tideline.open_iceberg(uri)
    tideline.create(uri, record_key="id")
    with pytest.raises(tideline.TableExistsError) as exists:
        tideline.create(uri, record_key="id")
    assert isinstance(exists.value, ConfigError)
    assert (missing.value.kind, exists.value.kind) == ("TableNotFound", "TableExists")


@pytest.fixture
def iceberg_table() -> tideline.IcebergLakeTable:
    """A table with three snapshots, an hour and more old, and deletes."""
    table = DeleteTable.create()
    table.append("a", range(10))
    table.append("b", range(10, 20))
    table.delete({"a": [1, 2]})
    return tideline.open_iceberg(table.model.location.uri)


def test_an_iceberg_table_shows_its_schema_and_snapshots(
    iceberg_table: tideline.IcebergLakeTable,
) -> None:
    assert isinstance(iceberg_table.schema, pa.Schema)
    assert iceberg_table.schema.names == ["number", "parity"]
    times = [snapshot.timestamp_ms for snapshot in iceberg_table.snapshots]
    assert (len(times), times) == (3, sorted(times))
    assert iceberg_table.current_snapshot == iceberg_table.snapshots[-1]
    newest = f"newest snapshot {iceberg_table.snapshots[-1].snapshot_id}"
    assert repr(iceberg_table) == (
        f"<IcebergLakeTable, version 2, {newest}, at {iceberg_table.uri}>"
    )


def test_an_iceberg_table_is_rewritten_expired_and_tidied(
    iceberg_table: tideline.IcebergLakeTable,
) -> None:
    everything = {"rewrite-all": "true"}
    planned = iceberg_table.plan_rewrite(options=everything)
    report = iceberg_table.rewrite(options=everything)
    assert report.files_rewritten == planned.files_before == 2
    assert len(iceberg_table.snapshots) == 4
    later = datetime.now(UTC) + timedelta(days=400)
    preview = iceberg_table.plan_expire(older_than=later, retain_last=1)
    assert len(iceberg_table.refresh().snapshots) == 4
    run = iceberg_table.expire(older_than=later, retain_last=1)
    assert run.plan.snapshot_ids == preview.plan.snapshot_ids
    assert len(run.plan.snapshot_ids) == 3
    assert len(iceberg_table.snapshots) == 1
    assert iceberg_table.plan_remove_orphans().orphans == ()
    assert iceberg_table.remove_orphans(older_than=timedelta(days=2)).deleted == ()
    with pytest.raises(ConfigError, match="24 hours"):
        iceberg_table.remove_orphans(older_than=timedelta(hours=1))
