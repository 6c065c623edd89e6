"""Tables of SQL and REST catalogs: PyIceberg writes, Tideline rewrites, PyIceberg continues."""

from __future__ import annotations

import itertools
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TableNotFoundError,
)
from tideline.iceberg.commit.rewrite_files import RewriteFiles, commit_rewrite
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import CommitOutcome, Committed, Conflicted, Unknown
from tideline.testing.fake_clock import FakeClock

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TooManyRequestsError,
)
from pyiceberg.transforms import IdentityTransform

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])
NAME = "lake.orders"


class InterceptedCatalog(Catalog, ABC):
    """A catalog that does something else around its next commit."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    @abstractmethod
    def commit_alone(self, *args: Any, **kwargs: Any) -> Any:
        """The commit itself, as this catalog makes it."""

    def commit_table(self, *args: Any, **kwargs: Any) -> Any:
        before, self.before = self.before, None
        if before is not None:
            before()
        response = self.commit_alone(*args, **kwargs)
        after, self.after = self.after, None
        if after is not None:
            after()
        return response


def raising(error: Exception) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


class InterceptedSqlCatalog(InterceptedCatalog, SqlCatalog):
    """In SQLite."""

    def commit_alone(self, *args: Any, **kwargs: Any) -> Any:
        return SqlCatalog.commit_table(self, *args, **kwargs)


class InterceptedRestCatalog(InterceptedCatalog, RestCatalog):
    """Iceberg's own server."""

    def commit_alone(self, *args: Any, **kwargs: Any) -> Any:
        return RestCatalog.commit_table(self, *args, **kwargs)


@pytest.fixture(
    params=[
        pytest.param((kind, version), marks=[pytest.mark.interop] if kind == "rest" else [])
        for kind in ("sql", "rest")
        for version in ("1", "2")
    ],
    ids=lambda param: "-v".join(param),
)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> InterceptedCatalog:
    kind, version = request.param
    opened: InterceptedCatalog
    if kind == "sql":
        uri = f"sqlite:///{tmp_path}/catalog.db"
        opened = InterceptedSqlCatalog("test", uri=uri)
    else:
        server = request.getfixturevalue("iceberg_rest_server")
        request.getfixturevalue("catalogs_name_folders")
        opened = InterceptedRestCatalog("test", uri=server.uri)
    opened.create_namespace_if_not_exists("lake")
    if opened.table_exists(NAME):
        opened.drop_table(NAME)
    table = opened.create_table(
        NAME, SCHEMA, location=f"file://{tmp_path}/orders", properties={"format-version": version}
    )
    with table.update_spec() as update:
        update.add_field("region", IdentityTransform(), "region")
    for start in range(0, 40, 10):
        append(opened, range(start, start + 10))
    return opened


def append(catalog: Catalog, numbers: range) -> None:
    regions = [("EU", "US")[number % 2] for number in numbers]
    rows = pa.table({"id": list(numbers), "region": regions}, schema=SCHEMA)
    catalog.load_table(NAME).append(rows)


def ids(catalog: Catalog) -> list[int]:
    return sorted(catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist())


def live_files(table: IcebergTable) -> list[DataFile]:
    manifests = manifests_of(table.io, table.metadata.snapshot())
    entries = (entries_of(table.io, manifest, live_only=True) for manifest in manifests)
    return [entry.data_file for entry in itertools.chain.from_iterable(entries)]


def concatenated(table: IcebergTable, region: str) -> RewriteFiles:
    """All files of a region as one."""
    metadata = table.metadata
    head = metadata.snapshot()
    assert head is not None
    removed = tuple(file for file in live_files(table) if file.partition == (region,))
    bodies = (table.io.read(file.file_path) for file in removed)
    parts = [pq.ParquetFile(pa.BufferReader(body)).read() for body in bodies]
    path = f"{metadata.location}/data/region={region}/{uuid.uuid4()}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables(parts), sink)
    table.io.write(path, sink.getvalue().to_pybytes())
    rows = sum(part.num_rows for part in parts)
    size = table.io.size_bytes(path)
    assert size is not None
    added = DataFile(removed[0].content, path, "PARQUET", removed[0].spec_id, (region,), rows, size)
    number = head.sequence_number or None
    return RewriteFiles(head.snapshot_id, removed, (added,), sequence_number=number)


def commit(table: IcebergTable, rewrite: RewriteFiles) -> CommitOutcome:
    return commit_rewrite(table.operations, rewrite, clock=FakeClock())


def opened(catalog: Catalog) -> IcebergTable:
    return IcebergTable(CatalogTable(catalog, NAME, clock=FakeClock()))


@pytest.mark.slow_with("rest-v1", "rest-v2")
def test_pyiceberg_reads_the_same_rows_and_goes_on(catalog: InterceptedCatalog) -> None:
    table = opened(catalog)
    outcome = commit(table, concatenated(table, "EU"))
    assert isinstance(outcome, Committed)
    assert ids(catalog) == list(range(40))
    mine = catalog.load_table(NAME)
    assert len(list(mine.scan().plan_files())) == 5
    newest = mine.metadata.snapshots[-1]
    assert newest.summary is not None
    assert newest.summary.operation.value == "replace"
    assert outcome.loaded.metadata_location == mine.metadata_location
    append(catalog, range(40, 50))
    catalog.load_table(NAME).delete("id = 4")
    assert ids(catalog) == [*range(4), *range(5, 50)]
    table.refresh()
    assert isinstance(commit(table, concatenated(table, "EU")), Committed)
    assert ids(catalog) == [*range(4), *range(5, 50)]


def test_an_append_in_between_is_kept(catalog: InterceptedCatalog) -> None:
    table = opened(catalog)
    rewrite = concatenated(table, "US")
    catalog.before = lambda: append(catalog, range(40, 50))
    assert isinstance(commit(table, rewrite), Committed)
    assert ids(catalog) == list(range(50))


def test_a_delete_in_between_makes_the_rewrite_void(catalog: InterceptedCatalog) -> None:
    table = opened(catalog)
    rewrite = concatenated(table, "US")
    catalog.before = lambda: catalog.load_table(NAME).delete("id = 5")
    outcome = commit(table, rewrite)
    assert isinstance(outcome, Conflicted)
    assert "gone" in outcome.reason
    assert ids(catalog) == [*range(5), *range(6, 40)]


@pytest.mark.parametrize(
    "error",
    [
        CommitStateUnknownException("gateway timeout"),
        CommitFailedException("sent twice"),
        ConnectionError("reset by peer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_commit_whose_success_was_not_reported_is_found(
    catalog: InterceptedCatalog, error: Exception
) -> None:
    table = opened(catalog)
    rewrite = concatenated(table, "EU")
    catalog.after = raising(error)
    assert isinstance(commit(table, rewrite), Committed)
    assert ids(catalog) == list(range(40))
    replaced = [s for s in table.refresh().snapshots if s.operation == "replace"]
    assert len(replaced) == 1


def test_a_commit_with_an_unknown_outcome_keeps_its_files(
    catalog: InterceptedCatalog, tmp_path: Path
) -> None:
    table = opened(catalog)
    rewrite = concatenated(table, "EU")
    catalog.before = raising(CommitStateUnknownException("gateway timeout"))
    before = set(tmp_path.rglob("snap-*.avro"))
    assert isinstance(commit(table, rewrite), Unknown)
    assert len(set(tmp_path.rglob("snap-*.avro")) - before) == 1
    assert ids(catalog) == list(range(40))


@pytest.mark.parametrize("error", [TooManyRequestsError("busy"), NoSuchTableError("gone")])
def test_a_commit_that_did_not_take_place_leaves_no_files(
    catalog: InterceptedCatalog, tmp_path: Path, error: Exception
) -> None:
    table = opened(catalog)
    rewrite = concatenated(table, "EU")
    catalog.before = raising(error)
    before = set(tmp_path.rglob("*.avro"))
    with pytest.raises((StorageUnavailableError, TableNotFoundError)):
        commit(table, rewrite)
    assert set(tmp_path.rglob("*.avro")) == before


def test_a_refused_commit_is_tried_again(catalog: InterceptedCatalog) -> None:
    table = opened(catalog)
    rewrite = concatenated(table, "EU")
    catalog.before = raising(CommitFailedException("busy"))
    assert isinstance(commit(table, rewrite), Committed)
    assert ids(catalog) == list(range(40))


def test_summary_goes_on_from_pyicebergs(catalog: InterceptedCatalog) -> None:
    table = opened(catalog)
    rewrite = concatenated(table, "EU")
    commit(table, replace(rewrite, summary_extra={"engine-name": "tideline"}))
    summary = catalog.load_table(NAME).metadata.snapshots[-1].summary
    assert summary is not None
    stored = summary.additional_properties
    assert (stored["total-records"], stored["total-data-files"]) == ("40", "5")
    sizes = sum(file.file_size_bytes for file in live_files(IcebergTable(table.operations)))
    assert stored["total-files-size"] == str(sizes)


def test_a_missing_table_and_credentials_are_named(catalog: InterceptedCatalog) -> None:
    with pytest.raises(ObjectNotFoundError, match="no such table"):
        IcebergTable(CatalogTable(catalog, "lake.nothing"))
    with pytest.raises(ConfigError, match="environment"):
        open_catalog("test", {"token": "x"})
