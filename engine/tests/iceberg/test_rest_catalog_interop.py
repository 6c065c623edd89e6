"""A REST catalog that Iceberg's Spark runtime and Tideline work on by turns: its rows stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tideline.cli.main import run
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("catalogs_name_folders")]

VERSIONS = (1, 2, 3)
Tideline = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"v{version}")
def table(
    request: pytest.FixtureRequest,
    iceberg_peer: IcebergPeer,
    iceberg_rest_server: IcebergRestServer,
) -> str:
    """Ten files in two partitions, and deletes: position deletes in version 2, vectors in 3."""
    name = f"sales.orders_v{request.param}"
    deletes = "copy-on-write" if request.param == 1 else "merge-on-read"
    iceberg_peer.add_catalog("rest", {"type": "rest", "uri": iceberg_rest_server.uri})
    iceberg_peer.run(
        "create namespace if not exists rest.sales",
        f"create table rest.{name} (id bigint, region string) using iceberg "
        f"partitioned by (region) tblproperties ('format-version'='{request.param}', "
        f"'write.delete.mode'='{deletes}')",
    )
    for start in range(0, 50, 10):
        iceberg_peer.run(
            f"insert into rest.{name} select id, if(id % 2 = 0, 'EU', 'US') "
            f"from range({start}, {start + 10})"
        )
    iceberg_peer.run(f"delete from rest.{name} where id in (3, 14, 25)")
    return name


@pytest.fixture
def tideline(
    table: str, iceberg_rest_server: IcebergRestServer, capsys: pytest.CaptureFixture[str]
) -> Tideline:
    """`tideline iceberg` for the table, and what it reports."""

    def called(command: str, *arguments: str) -> dict[str, Any]:
        catalog = ["--catalog", iceberg_rest_server.uri]
        assert run(["iceberg", command, *catalog, table, *arguments, "--json"]) == 0
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    return called


def ids(peer: IcebergPeer, table: str) -> list[int]:
    found: list[int] = peer.sql(f"select id from rest.{table} order by id")["id"].to_pylist()
    return found


@pytest.mark.slow
def test_either_goes_on_from_what_the_other_left(
    table: str, tideline: Tideline, iceberg_peer: IcebergPeer
) -> None:
    expected = [number for number in range(50) if number not in (3, 14, 25)]
    assert ids(iceberg_peer, table) == expected
    report = tideline("rewrite", "--local", "--option", "rewrite-all=true")
    assert report["files_added"] == 2
    assert ids(iceberg_peer, table) == expected

    iceberg_peer.run(
        f"delete from rest.{table} where id in (0, 1)",
        f"insert into rest.{table} values (100, 'EU')",
        f"alter table rest.{table} rename column id to number",
        f"alter table rest.{table} rename column number to id",
    )
    expected = [*expected[2:], 100]
    tideline("rewrite", "--local", "--option", "rewrite-all=true")
    tideline("rewrite-manifests")
    assert ids(iceberg_peer, table) == expected

    iceberg_peer.run(f"call rest.system.rewrite_manifests('{table}')")
    tideline("expire", "--older-than", "2999-01-01T00:00:00Z", "--retain-last", "1")
    snapshots = iceberg_peer.sql(f"select * from rest.{table}.snapshots")
    assert snapshots.num_rows == 1
    assert ids(iceberg_peer, table) == expected
