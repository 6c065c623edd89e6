"""`check` of Iceberg tables: sound ones are sound, and each planted fault is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import tideline
from tideline.check_finding import Finding, Severity
from tideline.cli.main import run
from tideline.errors import ConfigError
from tideline.iceberg.check.run import check_iceberg
from tideline.iceberg.manifest.manifest_entry import FileContent, ManifestContent
from tideline.iceberg.metadata.field_type import Primitive
from tideline.iceberg.metadata.single_value import encode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import Loaded
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import fixture_table
from tideline.testing.spoilt_iceberg_table import SpoiltIcebergTable, with_file

COLUMNS = pa.schema([pa.field("id", pa.int64(), False), ("part", pa.string()), ("n", pa.int32())])
MERGE = {"write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"}
_DELETES = ManifestContent.DELETES
LONG = Primitive("long")
SOUND = (
    "iceberg-duckdb.hist.fruit/data/fruit/metadata/v3.metadata.json",
    "iceberg-duckdb.hist.generated_spec2_0_001/data/generated_spec2_0_001/pyspark_iceberg_table/"
    "metadata/v9.metadata.json",
    "iceberg-duckdb.iceberg_v1_repro/data/iceberg_v1_repro/repro/merch_v1/metadata/"
    "00004-v3-upgraded-v1-null-counts.metadata.json",
    "iceberg-duckdb.iceberg/data/iceberg/lineitem_iceberg_gz/metadata/v2.gz.metadata.json",
    "iceberg-trino.mixed_case_bloom_filter/data/mixed_case_bloom_filter/metadata/"
    "00000-e9018b65-af5c-4ef5-9e30-c18a42f9782f.metadata.json",
)
"""Spark's, DuckDB's and Trino's."""


def rows(numbers: range, n: int = 0) -> list[dict[str, Any]]:
    return [{"id": number, "part": f"p{number % 2}", "n": n or None} for number in numbers]


def made(folder: Path, version: int = 3) -> SpoiltIcebergTable:
    table = tideline.create_iceberg(
        str(folder), COLUMNS, key="id", partition_by="part", format_version=version,
        properties=MERGE if version > 1 else {},
    )  # fmt: skip
    table.append(rows(range(10)))
    table.append(rows(range(10, 20), 5))
    table.delete("id in (3, 4)")
    return SpoiltIcebergTable(folder)


@pytest.fixture
def table(tmp_path: Path) -> SpoiltIcebergTable:
    return made(tmp_path / "t")


def bad(table: SpoiltIcebergTable) -> list[Finding]:
    return [found for found in table.open().check() if found.severity is not Severity.NOTE]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tables_written_here_are_sound(tmp_path: Path, version: int) -> None:
    table = made(tmp_path / "t", version)
    assert table.open().check() == ()
    opened = table.open()
    opened.alter().create_tag("before").commit()
    opened.upsert(rows(range(5, 25), 7))
    opened.overwrite(rows(range(30)))
    opened.insert_overwrite([{"id": 1, "part": "p1", "n": 1}])
    for service in ("rewrite_data_files", "rewrite_manifests", "expire_snapshots"):
        opened.run(service)
        assert table.open().check() == ()


def test_tables_of_pyiceberg_are_sound(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("lake")
    created = catalog.create_table("lake.t", schema=COLUMNS)
    created.append(pa.Table.from_pylist(rows(range(10), 3), COLUMNS))
    with created.update_spec() as spec:
        spec.add_identity("part")
    created.append(pa.Table.from_pylist(rows(range(10, 20)), COLUMNS))
    created.delete("id = 3")
    newest = created.metadata.current_snapshot_id
    assert newest is not None
    created.manage_snapshots().create_tag(newest, "one").commit()
    created.overwrite(pa.Table.from_pylist(rows(range(4), 9), COLUMNS), "id < 5")
    opened = tideline.open_iceberg(
        "lake.t", catalog="c", catalog_properties=dict(catalog.properties)
    )
    assert opened.check() == ()


@pytest.mark.fixtures
@pytest.mark.parametrize("name", SOUND)
def test_tables_of_other_engines_are_sound(name: str) -> None:
    folder, _, file = name.partition("/metadata/")
    stored = fixture_table(folder)
    path = stored / "metadata" / file
    metadata = TableMetadata.parse(path.read_bytes(), path=path)
    io = FileIO(StoreLocation.of(str(stored)), metadata.location)
    assert check_iceberg(StoredTable(io, Loaded(metadata, str(path)))) == ()


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table at one metadata file, which no catalog leads to here."""

    io: FileIO
    loaded: Loaded

    def load(self) -> Loaded:
        return self.loaded


def first_data(table: SpoiltIcebergTable) -> Path:
    return table.path(table.entries(table.manifests()[0])[0].data_file.file_path)


def vector(table: SpoiltIcebergTable) -> Path:
    return table.path(table.entries(table.manifests(_DELETES)[0])[0].data_file.file_path)


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def document(**fields: Any) -> Callable[[SpoiltIcebergTable], None]:
    return lambda table: table.change_metadata(lambda found: found.update(fields))


def of_snapshot(**fields: Any) -> Callable[[SpoiltIcebergTable], None]:
    return lambda table: table.change_metadata(lambda found: found["snapshots"][-1].update(fields))


def listed(**fields: Any) -> Callable[[SpoiltIcebergTable], None]:
    return lambda table: table.change_one(**fields)


def entry(**fields: Any) -> Callable[[SpoiltIcebergTable], None]:
    return lambda table: table.change_entries(lambda entries: with_file(entries, **fields))


def numbered(number: int) -> Callable[[SpoiltIcebergTable], None]:
    return lambda table: table.change_entries(
        lambda entries: [replace(item, sequence_number=number) for item in entries]
    )


def summary(name: str, value: str) -> Callable[[SpoiltIcebergTable], None]:
    return lambda table: table.change_metadata(
        lambda found: found["snapshots"][-1]["summary"].update({name: value})
    )


def another_vector(table: SpoiltIcebergTable) -> None:
    table.change_entries(lambda entries: [*entries, *entries], _DELETES)


def listed_twice(table: SpoiltIcebergTable) -> None:
    table.change_entries(lambda entries: [*entries, *entries])


def newest_manifest(table: SpoiltIcebergTable) -> Path:
    return table.path(table.manifests()[0].path)


def manifest_list(table: SpoiltIcebergTable) -> Path:
    return table.path(str(table.snapshot.manifest_list))


def wrong_cardinality(table: SpoiltIcebergTable) -> None:
    table.change_entries(lambda entries: with_file(entries, record_count=2), _DELETES)


def without_target(table: SpoiltIcebergTable) -> None:
    table.change_entries(lambda entries: with_file(entries, referenced_data_file=None), _DELETES)


def by_value(table: SpoiltIcebergTable) -> None:
    fields = {"content": FileContent.EQUALITY_DELETES, "equality_ids": (77,)}
    table.change_entries(lambda entries: with_file(entries, **fields), _DELETES)


def no_value_above(table: SpoiltIcebergTable, number: int) -> None:
    bound = {1: encode_value(LONG, number)}
    table.change_entries(lambda entries: with_file(entries, upper_bounds=bound))


def log_backwards(found: dict[str, Any]) -> None:
    found["snapshot-log"][0]["timestamp-ms"] += 3_600_000
    found["last-updated-ms"] += 3_600_000


def denied_nulls(table: SpoiltIcebergTable) -> None:
    table.open().append(rows(range(40, 44)))
    table.change_entries(lambda entries: with_file(entries, null_value_counts={3: 0}))


def other_partitions(table: SpoiltIcebergTable) -> None:
    (summary,) = table.manifests()[0].partitions or ()
    table.change_one(partitions=(replace(summary, lower_bound=b"p1"),))


def main_elsewhere(found: dict[str, Any]) -> None:
    found["refs"]["main"]["snapshot-id"] = found["snapshots"][0]["snapshot-id"]


def nullable_key(found: dict[str, Any]) -> None:
    found["schemas"][0]["fields"][0]["required"] = False


def forget_newest(found: dict[str, Any]) -> None:
    """Main, and the log, at the snapshot before."""
    found["current-snapshot-id"] = found["snapshots"][-2]["snapshot-id"]
    found["refs"]["main"]["snapshot-id"] = found["snapshots"][-2]["snapshot-id"]


def change(alter: Callable[[dict[str, Any]], None]) -> Callable[[SpoiltIcebergTable], None]:
    return lambda table: table.change_metadata(alter)


FAULTS: dict[str, Callable[[SpoiltIcebergTable], object]] = {
    "error: a data file is missing": lambda table: first_data(table).unlink(),
    "error: has 800 bytes, the metadata says 799": lambda table: grown(first_data(table)),
    "error: has 9 bytes": lambda table: first_data(table).write_bytes(b"x" * 9),
    "error: a position delete file is missing": lambda table: vector(table).unlink(),
    "error: has 4 bytes": lambda table: vector(table).write_bytes(b"PFA1"),
    "error: a deletion vector deletes 1 row, its manifest says 2": wrong_cardinality,
    "has 2 deletion vectors for each of 2 data files": another_vector,
    "error: the manifest is missing": lambda table: newest_manifest(table).unlink(),
    "error: the manifest cannot be read": lambda table: grown(newest_manifest(table)),
    "error: the manifest list of snapshot": lambda table: manifest_list(table).unlink(),
    "its list says that it has none": listed(added_files_count=0, existing_files_count=0),
    "warning: has 10 added rows, its list says 99": listed(added_rows_count=99),
    "error: its partition is outside": other_partitions,
    "error: has sequence number 2, the least": listed(min_sequence_number=9),
    "error: has sequence number 77, its manifest 2": numbered(77),
    "error: holds 5 rows, its manifest says 6": entry(record_count=6),
    "lists 2 data files 2 times": listed_twice,
    "error: the manifest's upper bound of column id": lambda table: no_value_above(table, 11),
    "error: the manifest's lower bound of column id": entry(
        lower_bounds={1: encode_value(LONG, 13)}, upper_bounds={1: encode_value(LONG, 99)}
    ),
    "error: the manifest's number of nulls of column n": denied_nulls,
    "error: the manifest's number of nulls of column n is wrong": entry(
        null_value_counts={3: 5}, value_counts={3: 5}
    ),
    "error: compares rows by field 77, which no schema": by_value,
    "cannot be read: a deletion vector names no data file": without_target,
    "has 2 data files with row ids of other files": entry(first_row_id=3),
    "has row id 80,004, next-row-id is 20": entry(first_row_id=80_000),
    "says total-records=3, its manifests have 20": summary("total-records", "3"),
    "error: last-column-id is 1, field id 3": document(**{"last-column-id": 1}),
    "error: last-partition-id is 999": document(**{"last-partition-id": 999}),
    "error: next-row-id is 3, row id 19": document(**{"next-row-id": 3}),
    "has sequence number 3, the table's last is 2": document(**{"last-sequence-number": 2}),
    "names schema 8, which the table does not have": of_snapshot(**{"schema-id": 8}),
    "has no higher sequence number": of_snapshot(**{"sequence-number": 1}),
    "error: branch main leads to": change(main_elsewhere),
    "error: column id of the key may be null": change(nullable_key),
    "is older in the log": change(log_backwards),
    "error: last-updated-ms is before": document(**{"last-updated-ms": 5}),
    "default is not JSON": document(properties={**MERGE, "schema.name-mapping.default": "[{"}),
}
"""What the first finding says, and what is done to the table."""


@pytest.mark.parametrize(("text", "spoil"), FAULTS.items(), ids=FAULTS)
def test_a_fault_is_found(
    table: SpoiltIcebergTable, text: str, spoil: Callable[[SpoiltIcebergTable], object]
) -> None:
    spoil(table)
    found = bad(table)[0]
    assert text in f"{found.severity}: {found.message}"


def test_what_old_snapshots_need_is_looked_for_as_well(table: SpoiltIcebergTable) -> None:
    opened = table.open()
    opened.overwrite(rows(range(3), 1))
    min(table.folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns).unlink()
    (found,) = bad(table)
    assert found.severity is Severity.WARNING
    assert "of snapshot" in found.message
    assert "reading as of then fails" in found.message
    assert "tideline iceberg expire" in found.advice
    old = [snapshot.snapshot_id for snapshot in opened.snapshots]
    opened.expire(snapshot_ids=old[:-1])
    assert table.open().check() == ()


def test_a_manifest_list_that_only_an_old_snapshot_needs_is_a_warning(
    table: SpoiltIcebergTable,
) -> None:
    manifest_list(table).unlink()
    table.change_metadata(forget_newest)
    assert [str(found.severity) for found in bad(table)] == ["warning"]


def test_a_fault_of_a_tag_is_an_error(table: SpoiltIcebergTable) -> None:
    opened = table.open()
    opened.alter().create_tag("kept").commit()
    lost = first_data(table)
    opened.overwrite(rows(range(3), 1))
    lost.unlink()
    (found,) = bad(table)
    assert found.severity is Severity.ERROR


def test_the_command_line_checks_both_formats(
    table: SpoiltIcebergTable, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(table.folder)
    assert run(["check", uri]) == 0
    assert capsys.readouterr().out == "No findings: the table is sound.\n"
    first_data(table).unlink()
    assert run(["check", uri, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["check"], found["severity"]) == ("files", "error")
    assert run(["check", uri, "--repair"]) == ConfigError.exit_code
    assert "Iceberg tables are checked without: leave it out" in capsys.readouterr().err
