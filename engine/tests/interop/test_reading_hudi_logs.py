"""Merge-on-read tables that Hudi's bundle writes (version 6) read as Hudi itself reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import typed_rows
from tideline.testing.interop_table import METADATA_TABLE_OFF, InteropLayout
from tideline.testing.log_blocks import frames_of
from tideline.testing.table_model import canonical_with_meta

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
_PAYLOADS = "org.apache.hudi.common.model"


class HudiTable:
    """A merge-on-read table that only Hudi writes, read by both."""

    def __init__(
        self,
        folder: Path,
        spark: SparkSession,
        peer: HudiPeer,
        options: Mapping[str, str],
    ) -> None:
        self.uri = str(folder / "logs")
        self._spark = spark
        self._peer = peer
        self._options = {
            **InteropLayout("logs", version=6).creating_options(),
            **METADATA_TABLE_OFF,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.compact.inline": "false",
            **options,
        }

    def write(self, operation: str, rows: pa.Table, **options: str) -> None:
        self._peer.write(self.uri, rows, operation=operation, options={**self._options, **options})

    def roll_back_newest(self) -> None:
        """Make the newest commit one that never completed; the next writer rolls it back."""
        newest = LakeTable.open(self.uri).timeline().completed().writes().last()
        assert newest is not None
        for name in (f"{newest.time}.deltacommit", f".{newest.time}.deltacommit.crc"):
            (Path(self.uri) / ".hoodie" / name).unlink()
        self.check()
        by_listing = {"hoodie.rollback.using.markers": "false"}
        self.write("upsert", typed_rows([99], version=1), **by_listing)

    def commands(self) -> int:
        """How many rollback commands the logs hold."""
        return sum(
            frame.is_rollback
            for body in (path.read_bytes() for path in self.log_paths())
            for frame in frames_of(body)
        )

    def check(self) -> None:
        """Both readers see the same rows and meta columns, with the logs and without."""
        table = LakeTable.open(self.uri)
        ours = canonical_with_meta(table.snapshot(self._spark).toArrow())
        assert ours == canonical_with_meta(self._peer.read(self.uri))
        ours = canonical_with_meta(table.read_optimized(self._spark).toArrow())
        assert ours == canonical_with_meta(self._peer.read(self.uri, READ_OPTIMIZED))

    def log_paths(self) -> list[Path]:
        return [path for path in Path(self.uri).rglob(".*.log.*") if path.suffix != ".crc"]


CASES = [
    pytest.param("avro", "DefaultHoodieRecordPayload", id="avro-event-time"),
    pytest.param("parquet", "OverwriteWithLatestAvroPayload", id="parquet-commit-time"),
]


@pytest.mark.parametrize(("log_format", "payload"), CASES)
def test_we_read_hudis_logs_as_hudi_does_after_every_operation(
    log_format: str, payload: str, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    options = {
        "hoodie.logfile.data.block.format": log_format,
        "hoodie.datasource.write.payload.class": f"{_PAYLOADS}.{payload}",
    }
    table = HudiTable(tmp_path, spark, hudi_peer, options)
    table.write("bulk_insert", typed_rows(range(30), version=2))
    table.check()
    table.write("upsert", typed_rows(range(0, 24, 2), version=3))
    table.check()
    # Older than what is stored, and new rows among them.
    table.write("upsert", typed_rows(range(1, 40, 3), version=1))
    table.check()
    table.write("delete", typed_rows(range(0, 12, 3), version=9))
    table.check()
    assert len(table.log_paths()) >= 4
    before = LakeTable.open(table.uri).snapshot(spark).toArrow()
    table.write("upsert", typed_rows(range(5, 20), version=7))
    table.check()
    table.roll_back_newest()
    table.check()
    assert table.commands() > 0
    after = LakeTable.open(table.uri).snapshot(spark).where("id <> 'k99'").toArrow()
    assert canonical_with_meta(after) == canonical_with_meta(before)
    compaction = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    table.write("upsert", typed_rows(range(2, 9), version=8), **compaction)
    table.check()
    table.write("upsert", typed_rows(range(4, 7), version=9))
    table.check()
