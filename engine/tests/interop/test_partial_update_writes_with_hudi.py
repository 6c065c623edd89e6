"""Hudi and Tideline write the same batches into two copies of a table with partial updates.

The tables are Hudi's, with its defaults, the metadata table among them. What either engine writes
the other one continues.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.hudi.open_table import open_table
from tideline.hudi.table.java_properties import parse_properties
from tideline.hudi.table.properties import PROPERTIES_PATH
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.partial_rows import (
    BY_COMMIT_TIME,
    BY_EVENT_TIME,
    FROM_DEBEZIUM,
    MARK,
    MODEL,
    rows,
)
from tideline.testing.table_audit import merged_rows

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

BOTH_TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
FIRST = rows(
    ("a", 5, 1, "one", [1]), ("b", 5, 1, None, None), ("c", 5, 1, "one", [1]),
    ("d", 9, None, "late", None), ("e", 5, 1, MARK, [1]), ("g", 5, 1, "gone", [1]),
)  # fmt: skip
CHANGES = (
    rows(("a", 6, None, "two", None), ("b", 6, 2, None, [2]), ("d", 3, 7, "early", [7]),
         ("e", 6, None, MARK, None)),
    # Several rows of one key, and new keys among them.
    rows(("a", 8, 3, None, None), ("f", 5, 1, None, None), ("a", 9, None, MARK, [9]),
         ("f", 7, None, "seven", None), ("a", 7, 4, "x", None), ("f", 6, 2, None, [6]),
         ("b", 4, None, "older", None), ("d", 4, 8, "second", None), ("h", 1, None, MARK, None)),
)  # fmt: skip
CONTINUED = (
    rows(("a", 9, None, None, [8]), ("e", 7, 3, "there", None), ("f", 8, None, None, None)),
    rows(("h", 2, 5, MARK, [5]), ("e", 8, None, MARK, None), ("i", 1, 1, None, None)),
)


@dataclass(frozen=True, slots=True)
class TwoCopies:
    """One table twice: `hudis` for Hudi to write, `ours` for Tideline."""

    hudis: Path
    ours: Path
    options: dict[str, str]
    spark: SparkSession
    hudi: HudiPeer

    @classmethod
    def made_by_hudi(
        cls,
        folder: Path,
        batch: pa.Table,
        payload: str,
        table_type: str,
        engines: tuple[SparkSession, HudiPeer],
        **more: str,
    ) -> TwoCopies:
        options = {
            "hoodie.table.name": "filled",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.payload.class": MODEL + payload,
            "hoodie.index.type": "SIMPLE",
            "hoodie.compact.inline": "false",
            **version_options(9),
            **more,
        }
        if payload == FROM_DEBEZIUM:
            options["hoodie.datasource.write.precombine.field"] = "_event_lsn"
        copies = cls(folder / "hudis", folder / "ours", options, *engines)
        copies.write_with_hudi(copies.hudis, "upsert", batch)
        shutil.copytree(copies.hudis, copies.ours)
        return copies

    def write_with_hudi(self, path: Path, operation: str, batch: pa.Table) -> None:
        self.hudi.write(str(path), self._shaped(batch), operation=operation, options=self.options)

    def write(self, path: Path, operation: str, batch: pa.Table) -> None:
        own = {name: text for name, text in self.options.items() if ".index." in name}
        frame = self.spark.createDataFrame(self._shaped(batch))
        LakeTable.open(str(path)).write(frame, operation, options=own)

    def write_apart(self, operation: str, batch: pa.Table) -> None:
        """The same batch by each engine into its own copy."""
        self.write_with_hudi(self.hudis, operation, batch)
        self.write(self.ours, operation, batch)

    def write_crossed(self, operation: str, batch: pa.Table) -> None:
        """The same batch by each engine into the other's copy."""
        self.write_with_hudi(self.ours, operation, batch)
        self.write(self.hudis, operation, batch)

    def check(self) -> list[dict[str, Any]]:
        """Both copies hold the same rows, for every reader; these rows."""
        expected = user_rows(self.hudi.read(str(self.hudis)))
        assert user_rows(self.hudi.read(str(self.ours))) == expected
        for path in (self.hudis, self.ours):
            assert user_rows(merged_rows(open_table(StoreLocation.of(path)))) == expected
            assert not LakeTable.open(str(path)).check()
        return expected

    def _shaped(self, batch: pa.Table) -> pa.Table:
        if MODEL + FROM_DEBEZIUM not in self.options.values():
            return batch
        batch = batch.rename_columns(
            ["_event_lsn" if name == "ts" else name for name in batch.schema.names]
        )
        deletes = ["d" if text == "gone" else "u" for text in batch.column("text").to_pylist()]
        return batch.append_column("_change_operation_type", pa.array(deletes))


def user_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows with the partition they are in; a global index may keep one in another."""
    names = [name for name in table.schema.names if not name.startswith("_hoodie_")]
    names.append("_hoodie_partition_path")
    # Hudi gives a partition column the value of the path.
    found = table.select(sorted({*names} - {"part"})).to_pylist()
    return sorted(found, key=lambda row: (row["id"], str(row)))


@BOTH_TYPES
@pytest.mark.parametrize("payload", [BY_EVENT_TIME, BY_COMMIT_TIME, FROM_DEBEZIUM])
def test_both_engines_write_the_same_rows(
    payload: str, table_type: str, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    first = FIRST
    if payload == FROM_DEBEZIUM:
        first = pa.concat_tables([FIRST.slice(0, 5), rows(("g", 5, 1, "there", [1]))])
    made = TwoCopies.made_by_hudi(tmp_path, first, payload, table_type, (spark, hudi_peer))
    for batch in CHANGES:
        made.write_apart("upsert", batch)
    assert {row["id"] for row in made.check()} == set("abcdefgh")
    gone = rows(("g", 6, None, "gone", None))
    if payload == FROM_DEBEZIUM:
        made.write_apart("upsert", gone)
    else:
        made.write_apart("delete", gone)
    assert {row["id"] for row in made.check()} == set("abcdefh")
    for batch in CONTINUED:
        made.write_crossed("upsert", batch)
    assert {row["id"] for row in made.check()} == set("abcdefhi")
    made.write_crossed("insert_overwrite", rows(("a", 1, None, None, None)))
    assert [row["id"] for row in made.check()] == ["a"]


@pytest.mark.parametrize(
    ("table_type", "moves"),
    # Hudi stores a row that does not move a second time where it has a log by event time.
    [("COPY_ON_WRITE", "true"), ("MERGE_ON_READ", "true"), ("COPY_ON_WRITE", "false")],
)
def test_both_engines_move_rows_alike(
    moves: str, table_type: str, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    index = {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": moves,
    }
    first = rows(*((key, 5, 1, key, [1]) for key in "abdf"), ("c", 5, None, "c", None))
    made = TwoCopies.made_by_hudi(
        tmp_path, first, BY_EVENT_TIME, table_type, (spark, hudi_peer), **index
    )
    made.write_apart("upsert", rows(("f", 6, 2, None, None)))
    made.write_apart(
        "upsert",
        rows(("a", "q", 6, None, "moved", None), ("b", None, 6, None, "no partition", None),
             ("c", "q", 4, 7, "older", None), ("d", "q", 5, None, None, None),
             ("f", "q", 7, None, None, None), ("e", "q", 5, 1, "new", None)),
    )  # fmt: skip
    places = {row["id"]: row["_hoodie_partition_path"] for row in made.check()}
    if moves == "true":
        assert places == {"a": "q", "b": "p", "c": "p", "d": "q", "e": "q", "f": "q"}
    made.write_crossed("upsert", rows(("a", 7, 2, None, None), ("e", 6, None, "back", None)))
    made.check()


def test_a_table_of_ours_is_as_hudi_makes_it(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    made = TwoCopies.made_by_hudi(
        tmp_path, FIRST, BY_EVENT_TIME, "COPY_ON_WRITE", (spark, hudi_peer)
    )
    shutil.rmtree(made.ours)
    table = LakeTable.create(
        str(made.ours),
        name="filled",
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_version=9,
        properties={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    ).hoodie_table
    hudis = parse_properties((made.hudis / PROPERTIES_PATH).read_bytes())
    ours = parse_properties(table.store.get(PROPERTIES_PATH))
    of_merging = [name for name in {*hudis, *ours} if "merge" in name or "payload" in name]
    of_merging += ["hoodie.table.partial.update.mode", "hoodie.table.ordering.fields"]
    assert {name: ours.get(name) for name in of_merging} == {
        name: hudis.get(name) for name in of_merging
    }
    made.write(made.ours, "upsert", FIRST)
    for batch in CHANGES:
        made.write_apart("upsert", batch)
    for batch in CONTINUED:
        made.write_crossed("upsert", batch)
    assert {row["id"] for row in made.check()} == set("abcdefghi")


def test_hudi_continues_a_table_of_ours_with_a_marker(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    """Hudi makes such tables for Debezium alone, with more properties than these."""
    path = tmp_path / "ours"
    prefixed = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
    LakeTable.create(
        str(path),
        name="filled",
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_version=9,
        properties={"hoodie.table.partial.update.mode": "FILL_UNAVAILABLE", prefixed: "?"},
    )
    options = {
        "hoodie.table.name": "filled",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "SIMPLE",
        **version_options(9),
    }
    copies = TwoCopies(path, path, options, spark, hudi_peer)
    copies.write(path, "upsert", rows(("a", 5, 1, "one", None), ("b", 5, 1, "?", None)))
    copies.write_with_hudi(
        path, "upsert", rows(("a", 6, None, "?", None), ("b", 4, 2, "older", None))
    )
    copies.write(path, "upsert", rows(("a", 7, 3, "?", None)))
    found = [(row["id"], row["ts"], row["n"], row["text"]) for row in copies.check()]
    assert found == [("a", 7, 3, "one"), ("b", 5, 1, "older")]
