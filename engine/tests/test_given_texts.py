"""The token and the metadata of a commit are texts, whatever a caller gives, in both formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError

ROWS = pa.table({"id": ["a"], "n": [1]})


@pytest.fixture(params=["hudi", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "table"
    if request.param == "iceberg":
        return tideline.create_iceberg(path, ROWS.schema)
    return tideline.create(path, record_key=["id"], schema=ROWS.schema)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"token": 5}, r"a token has 1 to 200 printable characters \[value=5"),
        ({"token": b"a"}, "a token has 1 to 200 printable characters"),
        ({"token": ""}, "a token has 1 to 200 printable characters"),
        ({"extra_metadata": {"by": 1}}, r"extra metadata is texts by texts \[value='by': 1"),
        ({"extra_metadata": {1: "by"}}, r"extra metadata is texts by texts \[value=1: 'by'"),
        ({"extra_metadata": {"by": None}}, "extra metadata is texts by texts"),
    ],
)
def test_what_is_no_text_is_refused_before_anything_is_written(
    table: Any, given: dict[str, Any], message: str
) -> None:
    operation = "append" if isinstance(table, tideline.IcebergLakeTable) else "insert"
    with pytest.raises(ConfigError, match=message):
        table.write(ROWS, operation, **given)
    assert table.count() == 0
    table.write(ROWS, operation, token="a", extra_metadata={"by": "me"})
    assert table.count() == 1
