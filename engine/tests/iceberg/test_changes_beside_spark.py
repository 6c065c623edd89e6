"""The same changes by Iceberg's Spark runtime and by Tideline: in Iceberg's REST catalog, the same
table, field by field, and both read and write on, as do PyIceberg and DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

import tideline
from tideline.iceberg.evolution.changes import IcebergChanges
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.usefixtures("catalogs_name_folders"),
]

STEPS: tuple[tuple[str, Any], ...] = (
    ("add column total decimal(9,2) comment 'in euros' after id",
     lambda c: c.add_column("total", "decimal(9, 2)", doc="in euros", after="id")),
    ("add column place.street string", lambda c: c.add_column("place.street", "string")),
    ("add column marks.element.by struct<a: int, b: array<string>>",
     lambda c: c.add_column("marks.by", "struct<a: int, b: list<string>>")),
    ("alter column count type bigint", lambda c: c.change_type("count", "long")),
    ("alter column total type decimal(18,2)", lambda c: c.change_type("total", "decimal(18,2)")),
    ("rename column region to area", lambda c: c.rename_column("region", "area")),
    ("alter column place.city comment 'where'", lambda c: c.set_doc("place.city", "where")),
    ("alter column count first", lambda c: c.move_column("count", first=True)),
    ("alter column code drop not null", lambda c: c.set_optional("code")),
    ("drop column note", lambda c: c.drop_column("note")),
    ("set identifier fields id", lambda c: c.set_identifier_fields("id")),
    ("add partition field bucket(4, id)", lambda c: c.add_partition_field("bucket(4, id)")),
    ("add partition field truncate(2, area) as short",
     lambda c: c.add_partition_field("truncate(2, area)", "short")),
    ("drop partition field bucket(4, id)", lambda c: c.drop_partition_field("bucket(4, id)")),
    ("replace partition field short with area",
     lambda c: c.drop_partition_field("short").add_partition_field("area")),
    ("add partition field bucket(4, id)", lambda c: c.add_partition_field("bucket(4, id)")),
    ("write ordered by area desc, id", lambda c: c.set_sort_order("area desc, id")),
    ("set tblproperties ('a'='1', 'b'='2')", lambda c: c.set_properties({"a": "1", "b": "2"})),
    ("unset tblproperties ('a')", lambda c: c.unset_properties("a")),
    ("create branch audit retain 7 days with snapshot retention 2 snapshots 3 days",
     lambda c: c.create_branch(
         "audit", max_ref_age_ms=7 * DAY, min_snapshots_to_keep=2, max_snapshot_age_ms=3 * DAY)),
    ("create tag kept retain 30 days", lambda c: c.create_tag("kept", max_ref_age_ms=30 * DAY)),
    ("create branch gone", lambda c: c.create_branch("gone")),
    ("drop branch gone", lambda c: c.drop_branch("gone")),
)  # fmt: skip
DAY = 86_400_000
ROW = "named_struct('city', 'Bern'), array(named_struct('mark', 1))"


def definition(metadata: TableMetadata) -> dict[str, Any]:
    numbers = {snapshot.snapshot_id: n for n, snapshot in enumerate(metadata.snapshots)}
    set_by_spark = ("write.distribution-mode", "owner")
    return {
        "schema": metadata.schema().json() | {"schema-id": None},
        "last_column": metadata.last_column_id,
        "spec": metadata.spec().fields_json(),
        "last_field": metadata.last_partition_id,
        "order": metadata.sort_order().json()["fields"],
        "properties": {n: v for n, v in metadata.properties.items() if n not in set_by_spark},
        "refs": {
            name: ref.json() | {"snapshot-id": numbers[ref.snapshot_id]}
            for name, ref in metadata.refs.items()
        },
    }


@pytest.mark.parametrize("version", [1, 2, 3], ids=lambda version: f"v{version}")
def test_the_same_changes_give_the_same_table(
    version: int, iceberg_peer: IcebergPeer, iceberg_rest_server: IcebergRestServer
) -> None:
    iceberg_peer.add_catalog("rest", {"type": "rest", "uri": iceberg_rest_server.uri})
    iceberg_peer.run("create namespace if not exists rest.altered")
    names = [f"altered.{who}_v{version}" for who in ("theirs", "ours")]
    for name in names:
        iceberg_peer.run(
            f"create table rest.{name} (id bigint not null, count int, region string, "
            "code string not null, note string, place struct<city: string>, "
            "marks array<struct<mark: int>>) using iceberg "
            f"tblproperties ('format-version'='{version}')",
            f"insert into rest.{name} values (1, 2, 'EU', 'x', 'n', {ROW})",
        )
    theirs, ours = (
        tideline.open_iceberg(
            name,
            catalog="rest",
            catalog_properties={"type": "rest", "uri": iceberg_rest_server.uri},
        )
        for name in names
    )
    for statement, change in STEPS:
        iceberg_peer.run(f"alter table rest.{names[0]} {statement}")
        change(ours.alter()).commit()
        expected, found = (definition(t.refresh().metadata) for t in (theirs, ours))
        assert found == expected, statement
    writes_on(iceberg_peer, ours, names[1])
    if version < 3:
        ours.alter().upgrade(version + 1).commit()
        writes_on(iceberg_peer, ours, names[1])


def writes_on(peer: IcebergPeer, ours: IcebergLakeTable, name: str) -> None:
    """Spark reads and writes on; PyIceberg and DuckDB see what Spark sees."""
    before = peer.sql(f"select id from rest.{name}").num_rows
    peer.run(
        f"insert into rest.{name} (id, count, area, code, total) values (9, 9, 'US', null, 1.5)"
    )
    expected = peer.sql(f"select id, count, total, area from rest.{name} order by id, area")
    assert expected.num_rows == before + 1
    ours.refresh()
    rows = ours.to_arrow(["id", "count", "total", "area"]).sort_by([("id", "ascending")])
    assert rows.to_pylist() == expected.to_pylist()
    location = ours.table.loaded.metadata_location.removeprefix("file://").removeprefix("file:")
    assert peer.pyiceberg_read(location).num_rows == expected.num_rows
    assert peer.duckdb_read(location).num_rows == expected.num_rows


def test_what_spark_wrote_to_a_branch_is_published(
    iceberg_peer: IcebergPeer, iceberg_rest_server: IcebergRestServer
) -> None:
    iceberg_peer.add_catalog("rest", {"type": "rest", "uri": iceberg_rest_server.uri})
    iceberg_peer.run(
        "create namespace if not exists rest.altered",
        "create table rest.altered.audited (id bigint) using iceberg",
        "insert into rest.altered.audited values (1)",
    )
    table = tideline.open_iceberg(
        "altered.audited",
        catalog="rest",
        catalog_properties={"type": "rest", "uri": iceberg_rest_server.uri},
    )
    changes: IcebergChanges = table.alter()
    changes.create_branch("audit").commit()
    iceberg_peer.run("insert into rest.altered.audited.branch_audit values (2)")
    assert iceberg_peer.sql("select id from rest.altered.audited").num_rows == 1
    changes.fast_forward("main", "audit").commit()
    assert iceberg_peer.sql("select id from rest.altered.audited").num_rows == 2
    iceberg_peer.run(
        "alter table rest.altered.audited set tblproperties ('write.wap.enabled'='true')",
        "set spark.wap.id = w1",
        "insert into rest.altered.audited values (3)",
        "set spark.wap.id = w2",
        "insert into rest.altered.audited values (4)",
        "reset spark.wap.id",
    )
    assert iceberg_peer.sql("select id from rest.altered.audited").num_rows == 2
    table.alter().publish("w1").commit()
    found = iceberg_peer.sql("select id from rest.altered.audited order by id")["id"]
    assert found.to_pylist() == [1, 2, 3]
    with pytest.raises(tideline.errors.ConfigError, match="has moved since"):
        table.alter().publish("w2").commit()
    with pytest.raises(tideline.errors.ConfigError, match="published already"):
        table.alter().publish("w1").commit()
    table.alter().rollback("audit").commit()
    assert iceberg_peer.sql("select id from rest.altered.audited").num_rows == 2
