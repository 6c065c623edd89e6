"""Hudi itself, as a peer to test against: the Spark bundle and hudi-rs in a process of their own.

`HudiPeer` starts one long-lived JVM in the peers' virtual environment (see `peer_environment`) and
speaks to it line by line; rows go both ways as pyarrow tables. Unless options say otherwise, what
it writes is of the version of new tables and is never upgraded. The pytest fixture `hudi_peer`
shares one JVM per test run.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.testing.json_line_process import Reply
from tideline.testing.peer_environment import (
    HUDI_0_BUNDLE,
    PeerEnvironment,
    prepare_hudi_peer,
)
from tideline.testing.spark_peer import SMALL_DATA_SETTINGS, SparkPeer, folder_of_the_run


def version_options(version: int) -> dict[str, str]:
    """Settings of Hudi's writers that keep a table at its version."""
    return {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}


def metadata_table(version: int) -> dict[str, str]:
    """Tables of version 9 have a metadata table that both engines keep, others none."""
    return {"hoodie.metadata.enable": str(version == 9).lower()}


@dataclass(frozen=True, slots=True)
class PeerInstant:
    """One instant of a timeline as Hudi loads it."""

    time: str
    action: str
    state: str


@dataclass(frozen=True, slots=True)
class PeerArchived:
    """One archived instant as Hudi loads it; `file_ids` are those its commit wrote."""

    time: str
    action: str
    state: str
    file_ids: str


@dataclass(frozen=True, slots=True)
class PeerRollback:
    """A completed rollback as Hudi reads it back from the timeline."""

    instants: tuple[str, ...]
    deleted_files: tuple[str, ...]


class HudiPeer(SparkPeer):
    """A running Hudi.

    Raises PeerFailureError with Java's own message when a request fails there.
    """

    def __init__(
        self,
        environment: PeerEnvironment,
        scratch: Path,
        *,
        spark_settings: Mapping[str, str] = SMALL_DATA_SETTINGS,
        shared_in: Path | None = None,
        timezone: str = "UTC",
    ) -> None:
        """Start the JVM, or share one (see `SparkPeer`).

        `scratch` is an existing folder for rows on their way and for the log; `timezone` is the
        local time of the JVM, in which Hudi by its default makes instants.
        """
        super().__init__(
            "hudi_peer_server", environment, scratch, spark_settings, shared_in, timezone
        )

    def read(
        self,
        uri: str,
        options: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """All rows, meta columns included, through Hudi's Spark data source."""
        reply = self._process.request(
            "read", uri=uri, options=dict(options or {}), columns=list(columns) if columns else None
        )
        return pq.read_table(reply.result)

    def file_slices(self, uri: str, *, metadata_table: bool) -> list[list[Any]]:
        """Every file slice as Hudi's own view has it, by its metadata table or by its folders:
        partition, file id, base instant, names and sizes in bytes of its files."""
        reply = self._process.request("file_slices", uri=uri, metadata_table=metadata_table)
        return list(reply.result)

    def partition_paths(
        self, options: Mapping[str, str], values: Sequence[Any]
    ) -> list[str | None]:
        """What Hudi's timestamp-based key generator makes of values of the column `t`, None where
        it fails; dates, timestamps and decimals as `["date", days]`, `["timestamp", milliseconds]`
        and `["decimal", digits]`."""
        reply = self._process.request("partition_paths", options=dict(options), values=list(values))
        return list(reply.result)

    def key_texts(self, rows: pa.Table, options: Mapping[str, str], generator: str) -> pa.Table:
        """Record keys and partition paths that a key generator of Hudi makes of rows, in their
        order: `avro_key` and `avro_path` as its writers of records do, `unsafe_key` and
        `unsafe_path` as bulk insert by rows; null where it fails."""
        source = self._scratch / f"{uuid.uuid4()}.parquet"
        # Spark takes days before 1582 of its own files as they are.
        pq.write_table(rows.replace_schema_metadata({"org.apache.spark.version": "3.5.0"}), source)
        reply = self._process.request(
            "key_texts", source=str(source), options=dict(options), generator=generator
        )
        return pq.read_table(reply.result)

    def read_with_hudi_rs(self, uri: str, options: Mapping[str, str] | None = None) -> pa.Table:
        """All rows, meta columns included, through hudi-rs."""
        reply = self._process.request("hudi_rs_read", uri=uri, options=dict(options or {}))
        return pq.read_table(reply.result)

    def write(
        self,
        uri: str,
        rows: pa.Table,
        *,
        operation: str,
        options: Mapping[str, str] | None = None,
        mode: str = "append",
    ) -> float:
        """Write rows, by default in the version of new tables; returns the seconds it took."""
        source = self._scratch / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows, source)
        return self.write_file(uri, source, operation=operation, options=options, mode=mode)

    def write_file(
        self,
        uri: str,
        source: Path,
        *,
        operation: str,
        options: Mapping[str, str] | None = None,
        mode: str = "append",
    ) -> float:
        """Write the rows of a parquet file or folder; otherwise as `write`."""
        merged = {
            **version_options(TABLE_VERSION),
            "hoodie.datasource.write.operation": operation,
            **(options or {}),
        }
        reply = self._process.request(
            "write", uri=uri, source=str(source), options=merged, mode=mode
        )
        return reply.seconds

    def sql(self, statement: str, views: Mapping[str, str] | None = None) -> pa.Table:
        """Run a Spark SQL statement; `views` maps names to table URIs."""
        reply = self._process.request("sql", statement=statement, views=dict(views or {}))
        return pq.read_table(reply.result)

    def run_statement(self, statement: str) -> float:
        """Run a Spark SQL statement for what it does; returns the seconds it takes."""
        return self._process.request("sql", statement=statement, views={}).seconds

    @contextmanager
    def settings(self, settings: Mapping[str, str], *others: str) -> Iterator[None]:
        """Its session with these settings; they and `others`, set meanwhile, are reset."""
        for name, text in settings.items():
            self.run_statement(f"set {name}={text}")
        try:
            yield
        finally:
            for name in (*settings, *others):
                self.run_statement(f"reset {name}")

    def aggregate(
        self, uri: str, statement: str, options: Mapping[str, str] | None = None
    ) -> Reply:
        """Rows of a small query over the table, called `t`, and the seconds it takes."""
        return self._process.request(
            "aggregate", uri=uri, options=dict(options or {}), statement=statement
        )

    def table_at(self, uri: str) -> str:
        """The name by which SQL knows the table at a location; other names of it stay as well."""
        name = f"t{uuid.uuid5(uuid.NAMESPACE_URL, uri).hex}"
        self.run_statement(f"create table if not exists {name} using hudi location '{uri}'")
        return name

    def timeline(self, uri: str) -> tuple[PeerInstant, ...]:
        """The active timeline as Hudi loads it, oldest first."""
        reply = self._process.request("timeline", uri=uri)
        return tuple(PeerInstant(*instant) for instant in reply.result)

    def archived_timeline(self, uri: str) -> tuple[PeerArchived, ...]:
        """The completed instants of the archive as Hudi loads it."""
        reply = self._process.request("archived_timeline", uri=uri)
        return tuple(PeerArchived(*instant) for instant in reply.result)

    def rollbacks(self, uri: str) -> tuple[PeerRollback, ...]:
        """The completed rollbacks of the active timeline, oldest first."""
        reply = self._process.request("rollbacks", uri=uri)
        return tuple(
            PeerRollback(instants=tuple(undone), deleted_files=tuple(deleted))
            for undone, deleted in reply.result
        )

    def build_index(
        self, uri: str, partition: str, options: Mapping[str, str], *, run: bool = True
    ) -> str:
        """Build a partition of the metadata table as HoodieIndexer does, or only schedule that; its
        instant. `options` enable it, and name a lock provider."""
        given = {
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.metadata.enable": "true",
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.operation": "upsert",
            **options,
        }
        reply = self._process.request(
            "build_index", uri=uri, options=given, partitions=[partition], run=run
        )
        return str(reply.result)

    def hold_table_lock(self, uri: str, options: Mapping[str, str]) -> None:
        """Take the storage lock of a table as Hudi's writers do, and keep it."""
        self._process.request("hold_table_lock", uri=uri, options=dict(options))

    def release_table_lock(self) -> None:
        """Give up what `hold_table_lock` took."""
        self._process.request("release_table_lock")


@pytest.fixture(scope="session")
def hudi_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiPeer]:
    """One Hudi for the whole test run; each of its workers has a session."""
    scratch, shared = (
        tmp_path_factory.mktemp("hudi-peer"),
        folder_of_the_run(tmp_path_factory, "hudi"),
    )
    with HudiPeer(prepare_hudi_peer(), scratch, shared_in=shared) as peer:
        yield peer


@pytest.fixture(scope="module")
def hudi_0_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiPeer]:
    """A Hudi of the last release before 1.0, for as long as one test module runs.

    It reads and writes; requests about timelines are those of releases from 1.0 on. Threads of its
    own look for classes where those of Java itself are.
    """
    scratch, environment = tmp_path_factory.mktemp("hudi-0-peer"), prepare_hudi_peer(HUDI_0_BUNDLE)
    settings = {**SMALL_DATA_SETTINGS, "spark.driver.extraClassPath": str(environment.jar)}
    with HudiPeer(environment, scratch, spark_settings=settings) as peer:
        yield peer


HudiPeerIn = Callable[[str], HudiPeer]
"""A Hudi whose local time is that of a zone."""


@pytest.fixture(scope="module")
def hudi_peer_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiPeerIn]:
    """Hudis in other zones than UTC, a JVM for each, for as long as one test module runs."""
    with ExitStack() as running:

        @cache
        def start(timezone: str) -> HudiPeer:
            scratch = tmp_path_factory.mktemp("hudi-peer-elsewhere")
            return running.enter_context(HudiPeer(prepare_hudi_peer(), scratch, timezone=timezone))

        yield start
