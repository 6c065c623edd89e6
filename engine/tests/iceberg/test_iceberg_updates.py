"""Updates of Iceberg tables: which rows change, what stays as it was, and what is refused."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tideline
from tideline.errors import ConfigError, InvalidDataError
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_lineage import LAST_UPDATED, ROW_ID
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSIONS
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.write.changed_files import rows_of_files
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_peer import metadata_file

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("part", pa.string()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("tags", pa.list_(pa.struct([("a", pa.string())]))),
    ]
)
MODES = ("copy-on-write", "merge-on-read")
Row = dict[str, Any]


def created(uri: str = "", **definition: Any) -> IcebergLakeTable:
    place = uri or f"memory://{uuid.uuid4().hex}/table"
    return tideline.create_iceberg(place, COLUMNS, **{"key": "id", **definition})


def given(*numbers: int) -> list[Row]:
    return [
        {"id": n, "part": f"p{n % 3}", "n": n * 10, "tags": [{"a": str(n)}] if n % 2 else None}
        for n in numbers
    ]


def found(table: IcebergLakeTable) -> dict[int, Row]:
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert len(rows) == table.count()
    return rows


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_random_updates_are_those_of_a_model(version: int, mode: str) -> None:
    chance = random.Random(version)
    properties = {"write.update.mode": mode, "write.delete.mode": mode}
    table = created(partition_by="part", sort_by="n", format_version=version, properties=properties)
    table.write(given(*range(8)))
    table.write(given(*range(8, 20)))
    model = {row["id"]: row for row in given(*range(20))}
    for turn in range(8):
        low, high = sorted(chance.sample(range(20), 2))
        if turn == 3:
            table.delete("id = 5")
            del model[5]
        hit = [row for n, row in model.items() if low <= n <= high]
        if chance.random() < 0.5:
            changes: Row = {"n": pc.field("n") + pc.field("id"), "part": f"t{turn % 2}"}
        else:
            changes = {"tags": [{"a": f"turn {turn}"}], "n": turn}
        report = table.update(f"id between {low} and {high}", changes, token=str(turn))
        for row in hit:
            n = changes["n"]
            row |= {**changes, "n": n if isinstance(n, int) else row["n"] + row["id"]}
        assert (report.rows_updated, report.rows_inserted, report.rows_deleted) == (len(hit), 0, 0)
        assert table.update("id >= 0", changes, token=str(turn)).is_repeat
        assert found(table) == model
    assert not table.check()


def lineage(table: IcebergLakeTable) -> dict[int, tuple[int, int]]:
    """The id of each row, and when it last changed, by its key."""
    io, metadata = table.table.io, table.refresh().metadata
    tasks = plan_files(io, metadata, metadata.ref_snapshot())
    rows = pa.Table.from_batches(list(rows_of_files(io, RowLayout.of(metadata), tasks)))
    columns = [rows[name].to_pylist() for name in ("id", ROW_ID.name, LAST_UPDATED.name)]
    return {key: (own, last) for key, own, last in zip(*columns, strict=True)}


@pytest.mark.parametrize("mode", MODES)
def test_a_row_keeps_its_id_and_readers_of_changes_see_an_update(mode: str) -> None:
    table = created(format_version=3, properties={"write.update.mode": mode})
    table.write(given(*range(6)))
    before, since = lineage(table), table.metadata.current_snapshot_id
    table.update("id in (1, 4)", {"n": 0})
    after = lineage(table)
    assert {key: own for key, (own, _) in after.items()} == {
        k: own for k, (own, _) in before.items()
    }
    assert {key for key in after if after[key][1] != before[key][1]} == {1, 4}
    changes = table.changes(since).read_all().sort_by("id").to_pylist()
    assert [(row["id"], row["_change_type"]) for row in changes if row["n"] == 0] == [
        (1, "UPDATE_AFTER"),
        (4, "UPDATE_AFTER"),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "say which columns to set"),
        ({"none": 1}, "no such column; there are id, part, n, tags"),
        ({"id": 1}, "a column of the key is not updated"),
        ({"n": "many"}, "no value for this column"),
        ({"n": pc.field("none")}, "the new values cannot be computed"),
        ({"n": pc.field("part")}, "the new values cannot be computed"),
    ],
)
def test_what_cannot_be_is_refused_before_a_file_is_written(changes: Row, said: str) -> None:
    table = created()
    table.write(given(1, 2))
    before = table.metadata
    with pytest.raises(ConfigError, match=said):
        table.update("id = 1", changes)
    with pytest.raises(ConfigError):
        table.update(None, {"n": 1})
    with pytest.raises(ConfigError, match="operation is one of append"):
        table.write(given(1), "update")
    with pytest.raises(InvalidDataError, match="a required column has nulls"):
        table.update("id = 1", {"n": None})
    assert table.refresh().metadata == before
    assert len(list(table.table.io.list(f"{table.uri}/data"))) == 1


def test_an_update_of_a_branch_leaves_main() -> None:
    table = created()
    table.write(given(1, 2))
    table.alter().create_branch("audit").commit()
    table.update("id = 1", {"n": 5}, branch="audit")
    assert found(table)[1]["n"] == 10
    assert table.to_arrow(["n"], filter="id = 1", as_of="audit")["n"].to_pylist() == [5]


@pytest.mark.parametrize("mode", MODES)
def test_others_read_it(mode: str, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.table import StaticTable

    table = created(
        f"{tmp_path}/table", partition_by="part", properties={"write.update.mode": mode}
    )
    table.write(given(*range(9)))
    table.update("n >= 40 and n < 80", {"part": "late", "n": pc.field("n") + 1})
    # PyIceberg 0.12 reads null lists of structs as empty ones.
    ours = table.to_arrow(["id", "part", "n"]).sort_by("id")
    peer = StaticTable.from_metadata(metadata_file(table.uri))
    theirs = peer.scan().to_arrow()
    assert theirs.select(ours.column_names).sort_by("id").to_pylist() == ours.to_pylist()
    few = peer.scan("part = 'late'").to_arrow()
    assert sorted(few["n"].to_pylist()) == [41, 51, 61, 71]


@pytest.mark.parametrize("mode", MODES)
def test_structs_with_required_fields_may_be_null(mode: str) -> None:
    properties = {"write.update.mode": mode, "write.merge.mode": mode}
    table = created(properties=properties)
    table.write(given(1, 2, 3))
    place = "struct<zip: int not null, city: string>"
    table.alter().add_column("place", place).add_column("all", "list<int>").commit()
    table.refresh()
    table.update("id = 1", {"n": 5})
    here = {"zip": 7, "city": None}
    table.update("id in (2, 3)", {"place": here})
    table.update("id = 3", {"place": None})
    assert table.update("id < 3", {"place": pc.field("place")}).rows_updated == 2
    assert [found(table)[number]["place"] for number in (1, 2, 3)] == [None, here, None]
    with pytest.raises(InvalidDataError, match="a required column has nulls"):
        table.update("id = 2", {"place": {"zip": None}})


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()),
                                  pa.struct([("a", pa.int32())])])  # fmt: skip
def test_a_null_of_arrows_is_a_value_of_any_column(kind: pa.DataType) -> None:
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("part", kind)])
    table = tideline.create_iceberg(f"memory://{uuid.uuid4().hex}/table", columns)
    values: list[Any] = [[1]] if pa.types.is_list(kind) else [{"a": 1}]
    if pa.types.is_map(kind):
        values = [[("a", 1)]]
    for null in (pa.scalar(None, kind), pa.scalar(None), pc.scalar(pa.scalar(None, kind)), None):
        table.write(pa.table([[1], pa.array(values, kind)], schema=columns), "overwrite")
        table.update("id = 1", {"part": null})
        assert found(table) == {1: {"id": 1, "part": None}}


def test_a_required_element_is_not_null() -> None:
    kind = pa.list_(pa.field("element", pa.int32(), nullable=False))
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("all", kind)])
    table = tideline.create_iceberg(f"memory://{uuid.uuid4().hex}/table", columns)
    table.write([{"id": 1, "all": [1]}])
    with pytest.raises(InvalidDataError, match="a required element is null"):
        table.update("id = 1", {"all": [1, None]})
    with pytest.raises(InvalidDataError, match="a required element is null"):
        table.write(pa.table([[1], pa.array([[None]], kind)], schema=columns))
    table.update("id = 1", {"all": None})
    assert found(table) == {1: {"id": 1, "all": None}}
