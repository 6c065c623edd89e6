"""Iceberg itself, as a peer: its Spark runtime, PyIceberg and DuckDB in processes of their own.

`IcebergPeer` starts one long-lived JVM in the peer's virtual environment (see `peer_environment`)
and speaks to it line by line; rows come back as pyarrow tables. SQL finds tables as
`lake.<namespace>.<table>`, which are folders below `warehouse`; other requests name a table by its
folder, and those of PyIceberg and DuckDB by its newest metadata file, which `metadata_file` finds.
DuckDB has a process apart, started when it is first asked, because some tables end it. The pytest
fixture `iceberg_peer` shares one JVM per test run.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.testing.json_line_process import JsonLineProcess, PeerLostError
from tideline.testing.peer_environment import PeerEnvironment, prepare_iceberg_peer
from tideline.testing.spark_peer import SMALL_DATA_SETTINGS, SparkPeer, folder_of_the_run


@dataclass(frozen=True, slots=True)
class PeerScanTask:
    """A file that a scan reads, as a peer plans it; `sequence_number` is None from PyIceberg."""

    path: str
    deletes: tuple[str, ...]
    sequence_number: int | None = None


@dataclass(frozen=True, slots=True)
class PeerFileGroup:
    """A file group as Iceberg's own bin-pack planner makes it."""

    files: tuple[str, ...]
    partition: str
    input_bytes: int
    split_size_bytes: int
    outputs_expected: int
    write_size_bytes_max: int
    output_spec_id: int


@dataclass(frozen=True, slots=True)
class DeleteFileOnDisk:
    """A delete file for `add_deletes`; with `equality_ids` it holds equality deletes."""

    path: str
    size_bytes: int
    record_count: int
    equality_ids: tuple[int, ...] = ()
    spec_id: int = 0
    partition: str = ""


@dataclass(frozen=True, slots=True)
class DataFileOnDisk:
    """A parquet file for `append_files`; `partition` is its path, as `a=1/b=x`, or ""."""

    path: str
    size_bytes: int
    record_count: int
    partition: str = ""


class IcebergPeer(SparkPeer):
    """A running Iceberg.

    Raises PeerFailureError with Java's own message when a request fails there.
    """

    def __init__(
        self,
        environment: PeerEnvironment,
        scratch: Path,
        *,
        spark_settings: Mapping[str, str] = SMALL_DATA_SETTINGS,
        shared_in: Path | None = None,
    ) -> None:
        """Start the JVM, or share one (see `SparkPeer`).

        `scratch` is an existing folder for tables, rows on their way and a log.
        The catalog `lake` holds tables of any format version in the folder `warehouse`.
        """
        self._environment = environment
        self._duckdb: JsonLineProcess | None = None
        super().__init__("iceberg_peer_server", environment, scratch, spark_settings, shared_in)
        self.add_catalog("lake", {"type": "hadoop", "warehouse": str(self.warehouse)})

    @property
    def warehouse(self) -> Path:
        """The folder of the catalog `lake`: table `lake.a.b` lies in `a/b`."""
        return self._scratch / "warehouse"

    def add_catalog(self, name: str, properties: Mapping[str, str]) -> None:
        """Another catalog for SQL, with Iceberg's properties (`type`, `uri`, `warehouse`)."""
        self._process.request("add_catalog", name=name, properties=dict(properties))

    def run(self, *statements: str) -> float:
        """Run Spark SQL statements for what they do; returns the seconds they take."""
        return self._process.request("run", statements=list(statements)).seconds

    def sql(self, statement: str, views: Mapping[str, pa.Table] | None = None) -> pa.Table:
        """Rows of a Spark SQL statement; `views` are rows it may name."""
        sources = {name: self._file(rows) for name, rows in (views or {}).items()}
        return self._rows("sql", statement=statement, views=sources)

    def read(self, uri: str, options: Mapping[str, str] | None = None) -> pa.Table:
        """Rows of a table, or with `uri#files` and the like of one of its metadata tables."""
        return self._rows("read", uri=uri, options=dict(options or {}))

    def append(self, uri: str, rows: pa.Table, options: Mapping[str, str] | None = None) -> None:
        """Append rows with Iceberg's Spark runtime."""
        source = self._file(rows)
        self._process.request("append", uri=uri, source=source, options=dict(options or {}))

    def plan(self, uri: str, where: str | None = None) -> tuple[PeerScanTask, ...]:
        """The files of a scan of the current snapshot, planned by Iceberg."""
        reply = self._process.request("plan", uri=uri, where=where)
        return tuple(
            PeerScanTask(path, tuple(deletes), sequence_number)
            for path, sequence_number, deletes in reply.result
        )

    def plan_rewrite(
        self, uri: str, options: Mapping[str, str] | None = None, where: str | None = None
    ) -> tuple[PeerFileGroup, ...]:
        """The file groups of Iceberg's own bin-pack planner, in its order."""
        reply = self._process.request(
            "plan_rewrite", uri=uri, options=dict(options or {}), where=where
        )
        return tuple(
            PeerFileGroup(**{**group, "files": tuple(group["files"])}) for group in reply.result
        )

    def add_deletes(self, uri: str, *deletes: DeleteFileOnDisk) -> None:
        """Commit delete files that lie there already, as one row delta of Iceberg's."""
        self._process.request(
            "add_deletes", uri=uri, deletes=[asdict(delete) for delete in deletes]
        )

    def create_table(self, uri: str, schema: str, spec: str, properties: Mapping[str, str]) -> None:
        """A table by Iceberg's JSON of its schema and partition spec: SQL lacks some types."""
        self._process.request(
            "create_table", uri=uri, schema=schema, spec=spec, properties=dict(properties)
        )

    def append_files(self, uri: str, *files: DataFileOnDisk) -> None:
        """Commit data files that lie there already."""
        self._process.request("append_files", uri=uri, files=[asdict(file) for file in files])

    def data_location(self, uri: str, below: str) -> str:
        """Where Iceberg puts a file of this partition path and name."""
        return str(self._process.request("data_location", uri=uri, below=below).result)

    def pyiceberg_plan(self, uri: str, where: str | None = None) -> tuple[PeerScanTask, ...]:
        """The files of a scan of the current snapshot, planned by PyIceberg."""
        reply = self._process.request(
            "pyiceberg_plan", metadata_file=metadata_file(uri), where=where
        )
        return tuple(PeerScanTask(path, tuple(deletes)) for path, deletes in reply.result)

    def pyiceberg_read(self, uri: str, where: str | None = None) -> pa.Table:
        """Rows of a table through PyIceberg."""
        return self._rows("pyiceberg_read", metadata_file=metadata_file(uri), where=where)

    def duckdb_read(
        self,
        uri: str,
        where: str | None = None,
        *,
        columns: str = "*",
        snapshot_id: int | None = None,
    ) -> pa.Table:
        """Rows of a table through DuckDB: of its current snapshot, or of `snapshot_id`.

        `columns` may name those of row lineage. Raises PeerFailureError when DuckDB refuses,
        PeerLostError when it ends; the next call starts another.
        """
        return self._ask_duckdb(
            "read",
            metadata_file=metadata_file(uri),
            columns=columns,
            where=where or "true",
            snapshot_id=snapshot_id,
        )

    def duckdb_read_file(self, path: Path, where: str = "true") -> pa.Table:
        """Rows of one parquet file through DuckDB. Raises as `duckdb_read`."""
        return self._ask_duckdb("read_file", path=str(path), where=where)

    def _ask_duckdb(self, request: str, **arguments: Any) -> pa.Table:
        if self._duckdb is None:
            self._duckdb = self._start_duckdb()
        try:
            reply = self._duckdb.request(request, **arguments)
        except PeerLostError:
            self._close_duckdb()
            raise
        return pq.read_table(reply.result)

    def close(self) -> None:
        """End the JVM, and DuckDB if it was started."""
        self._close_duckdb()
        super().close()

    def _start_duckdb(self) -> JsonLineProcess:
        script = Path(__file__).with_name("duckdb_server.py")
        return JsonLineProcess(
            [str(self._environment.python), str(script)],
            log_path=self._scratch / "duckdb_server.log",
            working_directory=self._scratch,
            environment=self._environment.process_environment(),
        )

    def _close_duckdb(self) -> None:
        process, self._duckdb = self._duckdb, None
        if process is not None:
            process.close()

    def _rows(self, operation: str, **arguments: Any) -> pa.Table:
        return pq.read_table(self._process.request(operation, **arguments).result)

    def _file(self, rows: pa.Table) -> str:
        source = self._scratch / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows, source)
        return str(source)


def metadata_file(uri: str) -> str:
    """The newest metadata file of a file-system table's folder, or `uri` when it is such a file."""
    if uri.endswith(".json"):
        return uri
    folder = Path(uri.removeprefix("file://").removeprefix("file:")) / "metadata"
    numbered = [
        (int(path.name[1:].partition(".")[0]), str(path)) for path in folder.glob("v*.json*")
    ]
    return max(numbered)[1]


@pytest.fixture(scope="session")
def iceberg_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergPeer]:
    """One Iceberg for the whole test run; each of its workers has a session and a warehouse."""
    scratch = tmp_path_factory.mktemp("iceberg-peer")
    shared = folder_of_the_run(tmp_path_factory, "iceberg")
    with IcebergPeer(prepare_iceberg_peer(), scratch, shared_in=shared) as peer:
        yield peer
