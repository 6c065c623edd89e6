"""Hudi's side of the benches: its Spark bundle, warm, in a process of its own.

Hudi runs as it comes. It gets 4 GB of driver memory, two cores, as many shuffle partitions as the
other side, and nothing else but what describes the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from bench.data import ORDERING, PARTITION_BY, RECORD_KEY
from bench.tideline_side import SPARK_SETTINGS
from tideline.hudi.table.table_config import TABLE_VERSION
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.peer_environment import prepare_hudi_peer

TABLE_OPTIONS = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.recordkey.field": RECORD_KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION_BY,
    "hoodie.datasource.write.precombine.field": ORDERING,
}
MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    # Compaction after a commit is measured apart.
    "hoodie.compact.inline": "false",
}
ONE_FILE_PER_PARTITION = {"hoodie.bulkinsert.sort.mode": "PARTITION_PATH_REPARTITION"}


def metadata_table(enabled: bool) -> dict[str, str]:
    """The option that switches Hudi's metadata table on (its default) or off."""
    return {"hoodie.metadata.enable": "true" if enabled else "false"}


class HudiSide:
    """A warm Hudi whose every call returns seconds of work inside its own process."""

    def __init__(self, scratch: Path) -> None:
        self._peer = HudiPeer(prepare_hudi_peer(), scratch, spark_settings=SPARK_SETTINGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def write(
        self,
        table: Path,
        source: Path,
        *,
        operation: str,
        options: Mapping[str, str],
    ) -> float:
        """Seconds that one write takes, the reading of its source included."""
        merged = {**TABLE_OPTIONS, **options}
        return self._peer.write_file(str(table), source, operation=operation, options=merged)

    def run_service(self, table: Path, call: str, options: Mapping[str, str]) -> float:
        """Seconds of a procedure such as `run_compaction(op => 'scheduleAndExecute', ...)`.

        `call` is the procedure's name and its own arguments; path and options are added.
        """
        given = {**version_options(TABLE_VERSION), **options}
        settings = ",".join(f"{name}={value}" for name, value in given.items())
        procedure, _, arguments = call.partition("(")
        statement = (
            f"call {procedure}(path => '{table}', options => '{settings}', "
            f"{arguments.removesuffix(')')})"
        )
        return self._peer.run_statement(statement)

    def aggregate(
        self, table: Path, statement: str, options: Mapping[str, str]
    ) -> tuple[float, list[Any]]:
        """Seconds and answer of a query over the table, called `t`."""
        reply = self._peer.aggregate(str(table), statement, options)
        return reply.seconds, reply.result
