"""Conditions on texts that Arrow cuts within a character when it prints them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tideline.errors import ConfigError
from tideline.formats.row_filter import RowFilter, printed

SCHEMA = pa.schema([("u", pa.string()), ("v", pa.int64())])
LONG = ["\U00010000" * 60 + "5", "é" * 20]


@pytest.mark.parametrize("given", [f"u in ('{LONG[0]}', '{LONG[1]}')", pc.field("u").isin(LONG)])
def test_rows_with_long_texts_are_found(given: object) -> None:
    condition = RowFilter.of(given, SCHEMA)
    assert condition.columns == {"u"}
    batch = pa.record_batch({"u": [*LONG, "other"], "v": [1, 2, 3]})
    assert condition.selected(batch)["v"].to_pylist() == [1, 2]


def test_a_wrong_condition_on_them_is_refused_by_name() -> None:
    condition = pc.field("u").isin(LONG)
    assert "is_in(u" in printed(condition)
    with pytest.raises(ConfigError, match="not their numbers"):
        RowFilter.of(condition & (pc.field(1) > 1), SCHEMA)
    with pytest.raises(ConfigError, match="no condition on the table's rows"):
        RowFilter.of(condition & (pc.field("missing") > 1), SCHEMA)
