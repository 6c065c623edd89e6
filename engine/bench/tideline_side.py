"""Our side of the benches: a warm Tideline in a process of its own, as Hudi's side is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from tideline.hudi.table.table_config import TABLE_VERSION
from tideline.testing.json_line_process import JsonLineProcess

SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "8",
}


class Created(TypedDict, total=False):
    """What a table is created as, unless by default."""

    table_type: str
    table_version: int
    properties: Mapping[str, str]


class TidelineSide:
    """A warm session of ours whose calls return seconds of work inside its own process."""

    def __init__(self, scratch: Path) -> None:
        self._process = JsonLineProcess(
            [sys.executable, "-m", "bench.tideline_server", json.dumps(SPARK_SETTINGS)],
            log_path=scratch / "tideline-side.log",
            working_directory=scratch,
            environment=os.environ,
        )
        self.last_report: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    @property
    def pid(self) -> int:
        """The driver's process; Spark's Java and the Python workers are below it."""
        return self._process.pid

    def create(self, table: Path, source: Path, **created: Unpack[Created]) -> None:
        """Create an empty table."""
        as_by_default: dict[str, Any] = {
            "table_type": "COPY_ON_WRITE",
            "table_version": TABLE_VERSION,
            "properties": {},
        }
        self._process.request(
            "create", table=str(table), source=str(source), **{**as_by_default, **created}
        )

    def load(self, table: Path, source: Path, **created: Unpack[Created]) -> None:
        """Create a table and fill it with one file per partition."""
        self.create(table, source, **created)
        self._process.request("load", table=str(table), source=str(source))

    def write(
        self,
        table: Path,
        source: Path,
        *,
        operation: str,
        options: Mapping[str, str] | None = None,
    ) -> float:
        """Seconds that one write takes; what it did is in `last_report`."""
        reply = self._process.request(
            "write",
            table=str(table),
            source=str(source),
            operation=operation,
            options=dict(options or {}),
        )
        self.last_report = reply.result
        return reply.seconds

    def run_service(self, table: Path, service: str, options: Mapping[str, str]) -> float:
        """Seconds that planning and executing one service takes; see `last_report`."""
        reply = self._process.request(
            "run_service", table=str(table), service=service, options=dict(options)
        )
        self.last_report = reply.result
        return reply.seconds

    def rewrite_iceberg(self, table: Path, *, sort_order: str | None = None) -> float:
        """Seconds that rewriting an Iceberg table's small files takes; see `last_report`."""
        reply = self._process.request("rewrite_iceberg", table=str(table), sort_order=sort_order)
        self.last_report = reply.result
        return reply.seconds

    def write_plain(self, folder: Path, source: Path) -> float:
        """Seconds that Spark takes to write the rows as plain partitioned parquet."""
        reply = self._process.request("write_plain", folder=str(folder), source=str(source))
        return reply.seconds

    def aggregate(self, table: Path, statement: str) -> tuple[float, list[Any]]:
        """Seconds and answer of a query over a table of ours, called `t`."""
        reply = self._process.request("aggregate", table=str(table), statement=statement)
        return reply.seconds, reply.result

    def aggregate_plain(self, folder: Path, statement: str) -> tuple[float, list[Any]]:
        """Seconds and answer of a query over plain parquet, called `t`."""
        reply = self._process.request("aggregate_plain", folder=str(folder), statement=statement)
        return reply.seconds, reply.result
