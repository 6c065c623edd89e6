"""Rows whose structs are null are written, whatever the fields within are, and nulls that are seen
in required fields are not."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.parquet.hidden_nulls import without_hidden_nulls

KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "x": (pa.int32(), 1),
    "s": (pa.string(), "a"),
    "b": (pa.bool_(), True),
    "many": (pa.list_(pa.int64()), [1, None]),
    "by": (pa.map_(pa.string(), pa.int32()), [("k", 1)]),
    "three": (pa.binary(3), b"abc"),
    "n": (pa.decimal128(5, 1), None),
}
WITHIN = pa.struct(
    [pa.field(name, kind, nullable=value is None) for name, (kind, value) in KINDS.items()]
)
ROW = {name: value for name, (_, value) in KINDS.items()}
ABOUT = pa.struct([pa.field("all", WITHIN, nullable=False), pa.field("some", WITHIN)])
ROWS = [{"all": ROW, "some": None}, None, {"all": ROW, "some": ROW}]
COLUMNS = {
    "struct": (ABOUT, ROWS),
    "list": (pa.list_(ABOUT), [[row, None] for row in ROWS]),
    "map": (pa.map_(pa.string(), ABOUT), [None if row is None else [("k", row)] for row in ROWS]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_nobody_sees_is_no_null(name: str) -> None:
    kind, rows = COLUMNS[name]
    taken = pa.array(rows, kind).take(pa.array([0, None, 1, 2, None]))
    for column in (taken, taken.slice(1, 3), pa.nulls(3, kind)):
        table = pa.table({"c": column})
        written = BytesIO()
        pq.write_table(without_hidden_nulls(table), written)
        assert pq.read_table(written)["c"].to_pylist() == column.to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_null_that_is_seen_is_refused(name: str) -> None:
    kind, _ = COLUMNS[name]
    row = {"all": ROW | {"x": None}, "some": None}
    column = {"struct": [None, row], "list": [[None, row]], "map": [[("k", row)]]}[name]
    with pytest.raises(pa.ArrowInvalid, match="x"):
        table = without_hidden_nulls(pa.table({"c": pa.array(column, kind)}))
        pq.write_table(table, BytesIO())
