"""Files of more columns than Spark plans in any time are refused by their footers."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.bounded.read_limits import COLUMNS_SETTING, columns_max
from tideline.cli.schema_file import read_schema_file
from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.parquet_footer import check_columns, read_schema
from tideline.spark.source_files.parquet_source import read_parquet_schemas
from tideline.storage.local.store import LocalStore


def test_a_file_of_too_many_columns_is_refused_by_its_footer(tmp_path: Path) -> None:
    """A tenth of what hung; it is the footer alone that is looked at."""
    pq.write_table(
        pa.table({f"c{number}": [1] for number in range(10_001)}), tmp_path / "w.parquet"
    )
    began_s = time.monotonic()
    schemas, unreadable = read_parquet_schemas(LocalStore(str(tmp_path)), ["w.parquet"])
    assert time.monotonic() - began_s < 60
    assert schemas == {}
    assert unreadable["w.parquet"].startswith("10,001 columns are more than the 10,000 that are")
    with pytest.raises(ConfigError, match="10,001 columns"):
        read_schema_file(str(tmp_path / "w.parquet"))


def test_the_limit_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "w.parquet")
    pq.write_table(pa.table({"a": [1], "b": [{"c": 1, "d": 2}]}), path)
    monkeypatch.setenv(COLUMNS_SETTING, "2")
    with pytest.raises(UnsupportedTableError, match=f"set {COLUMNS_SETTING} higher") as raised:
        check_columns(pq.read_metadata(path), path="w.parquet")
    assert raised.value.path == "w.parquet"
    monkeypatch.setenv(COLUMNS_SETTING, "3")
    assert read_schema(path).names == ["a", "b"]
    for wrong in ("0", "many", "-1", "9" * 40):
        monkeypatch.setenv(COLUMNS_SETTING, wrong)
        with pytest.raises(ConfigError, match=COLUMNS_SETTING):
            columns_max()
