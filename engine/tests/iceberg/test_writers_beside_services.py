"""A PyIceberg writer, as it comes, beside all services at full speed: it never fails.

It appends and deletes in a loop. One partition only gets appends, and is rewritten all the time;
in the other, rows are deleted again and again, and rewrites wait until that has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.errors import ConflictError
from tideline.iceberg.maintenance.expire_plan import ExpireOptions
from tideline.iceberg.maintenance.expire_snapshots import execute_expire
from tideline.iceberg.maintenance.manifest_plan import ManifestOptions
from tideline.iceberg.maintenance.rewrite_manifests import execute_manifests
from tideline.iceberg.rewrite.in_process import write_groups_here
from tideline.iceberg.rewrite.options import QUIET_FOR, RewriteOptions
from tideline.iceberg.rewrite.run import rewrite_data_files
from tideline.iceberg.table.open_table import IcebergTable

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from tideline.iceberg.table.catalog_table import CatalogTable

pytestmark = pytest.mark.slow

NAME = "lake.events"
SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])
QUIET_MS = 5_000
WRITE_S = 15.0


@pytest.fixture(params=["sql", pytest.param("rest", marks=pytest.mark.interop)])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Catalog]:
    """A connection of one's own to the same catalog."""
    if request.param == "rest":
        uri = request.getfixturevalue("iceberg_rest_server").uri
        one_at_a_time = threading.Lock()
        return lambda: rest_catalog(uri, one_at_a_time)
    place = f"sqlite:///{tmp_path}/c.db"
    return lambda: SqlCatalog("test", uri=place, warehouse=f"file://{tmp_path}")


def rest_catalog(uri: str, one_at_a_time: threading.Lock) -> RestCatalog:
    """The server keeps its tables in a SQLite database in memory, which takes one request at a
    time."""
    catalog = RestCatalog("test", uri=uri)
    send = catalog._session.send

    def in_turn(*args: Any, **given: Any) -> Any:
        with one_at_a_time:
            return send(*args, **given)

    catalog._session.send = in_turn  # type: ignore[method-assign]
    return catalog


def rows(number: int) -> pa.Table:
    first = number * 10
    kinds = ["quiet" if one % 2 else "busy" for one in range(10)]
    return pa.table({"id": list(range(first, first + 10)), "kind": kinds}, schema=SCHEMA)


class Writer(threading.Thread):
    """Appends, and deletes the first row of each append, until it is told to stop."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog
        self.stopped = threading.Event()
        self.expected: set[int] = set()
        self.failure: BaseException | None = None
        self.writes = 0

    def write(self) -> None:
        self.catalog.load_table(NAME).append(rows(self.writes))
        first = self.writes * 10
        self.catalog.load_table(NAME).delete(f"kind = 'busy' and id = {first}")
        self.expected |= set(range(first + 1, first + 10))
        self.writes += 1

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self.write()
        except BaseException as error:
            self.failure = error


class Services:
    """All that a policy runs, one after the other, without a pause."""

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


def test_a_writer_never_fails_because_of_services(connect: Callable[[], Catalog]) -> None:
    catalog = connect()
    catalog.create_namespace_if_not_exists("lake")
    if catalog.table_exists(NAME):
        catalog.drop_table(NAME)
    table = catalog.create_table(NAME, SCHEMA)
    with table.update_spec() as update:
        update.add_field("kind", IdentityTransform(), "kind")
    writer, services = Writer(connect()), Services(connect())
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
    assert files_of(catalog)["busy"] > 1
    time.sleep(QUIET_MS / 1000 + 0.1)
    services.run()
    assert files_of(catalog) == {"busy": 1, "quiet": 1}
    assert sorted(catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()) == sorted(
        writer.expected
    )
