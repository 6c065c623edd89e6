"""Writers as they come, of PyIceberg and Spark, beside all services at full speed: none fails.

They append and delete in a loop. One partition only gets appends, and is rewritten all the time; in
the other, rows are deleted again and again, and rewrites wait until that has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.errors import ConflictError
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import QUIET_FOR, RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer
from tideline.testing.one_at_a_time import one_at_a_time

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from tideline.iceberg.table.catalog_table import CatalogTable

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("catalogs_name_folders")]

NAME = "lake.events"
SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])
QUIET_MS = 5_000
WRITE_S = 15.0


@pytest.fixture(params=["sql", pytest.param("rest", marks=pytest.mark.interop)])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
    """A connection of one's own to the same catalog."""
    if request.param == "rest":
        with one_at_a_time(request.getfixturevalue("iceberg_rest_server").uri) as uri:
            yield lambda: RestCatalog("test", uri=uri)
        return
    place = f"sqlite:///{tmp_path}/c.db"
    yield lambda: SqlCatalog("test", uri=place, warehouse=f"file://{tmp_path}")


def rows(number: int) -> pa.Table:
    first = number * 10
    kinds = ["quiet" if entry % 2 else "busy" for entry in range(10)]
    return pa.table({"id": list(range(first, first + 10)), "kind": kinds}, schema=SCHEMA)


class Writer(threading.Thread):
    """Appends, and deletes the first row of each append, until it is told to stop."""

    def __init__(self, append: Callable[[int], object], delete: Callable[[int], object]) -> None:
        super().__init__()
        self.append = append
        self.delete = delete
        self.stopped = threading.Event()
        self.expected: set[int] = set()
        self.failure: BaseException | None = None
        self.writes = 0

    def write(self) -> None:
        self.append(self.writes)
        first = self.writes * 10
        self.delete(first)
        self.expected |= set(range(first + 1, first + 10))
        self.writes += 1

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self.write()
        except BaseException as error:
            self.failure = error


class Services:
    """All that a policy runs, one after another, without a pause."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.rewritten = 0
        self.gave_way = 0

    def run(self) -> None:
        now_ms = SystemClock().now_ms()
        self.rewrite()
        execute_manifests(self.operations(), ManifestOptions())
        wanted = ExpireOptions(now_ms, 1, superseded_before_ms=now_ms - QUIET_MS)
        execute_expire(self.operations(), wanted)

    def rewrite(self) -> None:
        given = {"min-input-files": "2", QUIET_FOR: str(QUIET_MS)}
        options = RewriteOptions.parse(given, properties={})
        try:
            table = IcebergTable(self.operations())
            self.rewritten += rewrite_data_files(table, options, write_groups_here).files_rewritten
        except ConflictError:
            self.gave_way += 1

    def operations(self) -> CatalogTable:
        return CatalogTable(self.catalog, NAME)


def files_of(catalog: Catalog) -> dict[Any, int]:
    found = [task.file.partition[0] for task in catalog.load_table(NAME).scan().plan_files()]
    return {kind: found.count(kind) for kind in ("busy", "quiet")}


def run_beside(writer: Writer, services: Services) -> None:
    """Both at once for a while, then the services alone; nothing fails, and all is there."""
    writer.write()
    writer.start()
    ends_s = time.monotonic() + WRITE_S
    while time.monotonic() < ends_s and writer.is_alive():
        services.run()
    writer.stopped.set()
    writer.join()
    assert writer.failure is None
    assert writer.writes > 5
    assert services.rewritten > 5
    assert files_of(services.catalog)["busy"] > 1
    time.sleep(QUIET_MS / 1000 + 0.1)
    services.run()
    assert files_of(services.catalog) == {"busy": 1, "quiet": 1}
    found = services.catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == sorted(writer.expected)


def fresh(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("lake")
    if catalog.table_exists(NAME):
        catalog.drop_table(NAME)


def test_a_pyiceberg_writer_never_fails_because_of_services(
    connect: Callable[[], Catalog],
) -> None:
    catalog = connect()
    fresh(catalog)
    table = catalog.create_table(NAME, SCHEMA)
    with table.update_spec() as update:
        update.add_field("kind", IdentityTransform(), "kind")
    writer = Writer(
        lambda number: catalog.load_table(NAME).append(rows(number)),
        lambda first: catalog.load_table(NAME).delete(f"kind = 'busy' and id = {first}"),
    )
    run_beside(writer, Services(connect()))


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_spark_writer_never_fails_because_of_services(
    iceberg_peer: IcebergPeer, iceberg_rest_server: IcebergRestServer, mode: str
) -> None:
    def append(number: int) -> None:
        first = number * 10
        iceberg_peer.run(
            f"insert into {table} select id, if(id % 2 = 1, 'quiet', 'busy') "
            f"from range({first}, {first + 10})"
        )

    with one_at_a_time(iceberg_rest_server.uri) as uri:
        name = f"turns_{mode.replace('-', '_')}"
        table = f"{name}.{NAME}"
        catalog = RestCatalog("test", uri=uri)
        fresh(catalog)
        iceberg_peer.add_catalog(name, {"type": "rest", "uri": uri})
        iceberg_peer.run(
            f"create table {table} (id bigint, kind string) using iceberg partitioned by (kind) "
            f"tblproperties ('format-version'='2', 'write.delete.mode'='{mode}')"
        )
        writer = Writer(
            append,
            lambda first: iceberg_peer.run(
                f"delete from {table} where kind = 'busy' and id = {first}"
            ),
        )
        run_beside(writer, Services(catalog))
