"""Our reads leave files out by statistics that Hudi made with its defaults, and lose no row where
these are wrong."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.hudi.metadata_table.file_ranges import ranges_of_files
from tideline.lake_table import LakeTable
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.reads_by_statistics import OpenedFiles, statistics_unused
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FILES = 20
START = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


def rows(keys: Iterable[int], v: int = 0) -> pa.Table:
    """Rows of a partition are near each other in every column; the last one has a NaN."""
    near = [key % FILES * 100 + key // FILES + v for key in keys]
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "p": [f"p{key % FILES}" for key in keys],
            "ts": pa.array([v for _ in near], pa.int64()),
            "n": pa.array(near, pa.int64()),
            "i": pa.array([None if key % 3 else key for key in keys], pa.int32()),
            "d": pa.array([float("nan") if item == 1901 else item / 4 for item in near]),
            "amount": pa.array([Decimal(item) / 4 for item in near], pa.decimal128(10, 2)),
            "day": [(START + dt.timedelta(days=item)).date() for item in near],
            "at": pa.array(
                [START + dt.timedelta(hours=item) for item in near], pa.timestamp("us", "UTC")
            ),
            "s": [f"s{item:05}" + ("x" * 3000 if item % 7 == 0 else "") for item in near],
        }
    )


@dataclass
class ByHudi:
    """A table of so many files that Hudi wrote with its defaults."""

    path: Path
    peer: HudiPeer
    version: int
    kind: str

    def write(self, written: pa.Table, operation: str = "upsert", **more: str) -> None:
        given = {
            "hoodie.table.name": "by_hudi",
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            **version_options(self.version),
            **more,
        }
        self.peer.write(str(self.path), written, operation=operation, options=given)

    def read(self, condition: str) -> tuple[list[str], int]:
        """Keys that we find, and how many data files we open for them."""
        seen = OpenedFiles(WithoutPaths(str(self.path)))
        lake = LakeTable(open_fresh(StoreLocation.of(self.path), seen.store))
        found = lake.to_arrow(["id"], condition)
        return sorted(found["id"].to_pylist()), len(seen.paths)

    def of_hudi(self, condition: str) -> list[str]:
        """Keys that Hudi finds without its data skipping."""
        name = self.peer.table_at(str(self.path))
        self.peer.run_statement(f"refresh table {name}")
        # No statistics are used of what is converted.
        found = self.peer.sql(
            f"select id from (select * from {name} limit 100000) where {condition}"
        )
        return sorted(found["id"].to_pylist())


class WithoutPaths(LocalStore):
    """A folder whose files are opened through the store alone."""

    def local_path(self, path: str) -> str | None:
        del path
        return None


@pytest.fixture(
    params=[(9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ"), (8, "COPY_ON_WRITE")],
    ids="v{0[0]} {0[1]}".format,
)
def made(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> ByHudi:
    table = ByHudi(tmp_path / "by_hudi", hudi_peer, *request.param)
    table.write(rows(range(FILES * 4)), "insert")
    return table


CONDITIONS: dict[str, int] = {
    "n = 702": 1,
    "n >= 300 and n < 400": 1,
    "day = date'2021-12-03'": 1,
    "amount = 175.5 and n > 0": 1,
    "n = 702 and d > 100": 1,
}


def test_one_file_is_opened_of_those_that_hudi_wrote(made: ByHudi) -> None:
    for condition, files in CONDITIONS.items():
        found, opened = made.read(condition)
        assert found == made.of_hudi(condition), condition
        assert found, condition
        assert opened == files, condition
        with statistics_unused():
            assert made.read(condition) == (found, FILES)


@pytest.mark.parametrize(
    "condition",
    ["d = double('NaN')", "d > 400", "s > 's00700'", "s = 's00702'", "i = 21", "i is null"],
)
def test_what_its_statistics_say_wrongly_loses_no_row(made: ByHudi, condition: str) -> None:
    if "NaN" in condition:
        found, _ = made.read("d is nan")
    else:
        found, _ = made.read(condition)
    assert found == made.of_hudi(condition)
    assert found


def test_updates_and_deletes_of_both_engines(made: ByHudi) -> None:
    made.write(rows([7, 27], 50_000))
    made.write(rows([8]), "delete")
    LakeTable(open_fresh(StoreLocation.of(made.path))).write(rows([9, 30], 60_000), "upsert")
    expected: Any = {"n > 50000": None, "n = 702": 1, "n = 802": 2, "n = 800": 2, "n = 901": None}
    for condition, files in expected.items():
        found, opened = made.read(condition)
        assert found == made.of_hudi(condition), condition
        assert opened < FILES, condition
        assert files is None or opened <= files + 2, condition


def test_long_text_of_one_row_group_is_not_lost(tmp_path: Path, hudi_peer: HudiPeer) -> None:
    """Hudi passes over the row group that has no bounds, and loses its rows."""
    table = ByHudi(tmp_path / "by_hudi", hudi_peer, 9, "COPY_ON_WRITE")
    count = 24_000
    keys = range(FILES * 4 * (count // (FILES * 4)))
    made = rows(keys)
    long = [f"b{key}" if key < count // 2 else f"z{key}" + "z" * 5000 for key in keys]
    partition = pa.array(["p" for _ in keys])
    made = made.set_column(made.schema.get_field_index("s"), "s", pa.array(long))
    made = made.set_column(made.schema.get_field_index("p"), "p", partition)
    small_groups = {"hoodie.parquet.block.size": "300000", "hoodie.parquet.page.size": "20000"}
    table.write(made, "bulk_insert", **small_groups)
    (path,) = table.path.glob("p/*.parquet")
    footer = pq.read_metadata(path)
    number = footer.schema.to_arrow_schema().get_field_index("s")
    have_bounds = {
        footer.row_group(at).column(number).statistics.has_min_max
        for at in range(footer.num_row_groups)
    }
    assert have_bounds == {False, True}
    hoodie = open_fresh(StoreLocation.of(table.path))
    name = str(path.relative_to(table.path))
    said = ranges_of_files(hoodie, ["s"], [name])[name]["s"].range
    assert str(said.greatest).startswith("b"), "the values that begin with z are passed over"
    assert table.read("s > 'y'")[0] == table.of_hudi("s > 'y'")
