"""Source files of `tideline write` whose names no object of a store can have."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import InvalidDataError
from tideline.ingest.execute.write_files import SourceWrite, write_sources
from tideline.ingest.sources.files.named_files import UNNAMABLE
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation


def no_spark() -> Any:
    raise AssertionError("this needs no Spark")


@pytest.mark.parametrize("name", ["a\nb.parquet", "a\x01.parquet", os.fsdecode(b"a\xff.parquet")])
def test_names_that_cannot_be_are_named_or_passed_over(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, file in enumerate((name, "good.parquet")):
        with (folder / file).open("wb") as stream:
            pq.write_table(pa.table({"id": [number]}), stream)
    table = LakeTable.create(str(tmp_path / "t"), record_key="id")
    wanted = SourceWrite(StoreLocation.of(str(folder)), "parquet", None)
    with pytest.raises(InvalidDataError) as raised:
        write_sources(table, no_spark, wanted)
    assert raised.value.message == f"source file cannot be taken in: {UNNAMABLE}"
    assert str(raised.value.path).endswith(ascii(name))
    written = write_sources(table, no_spark, replace(wanted, skips_bad_files=True))
    assert written.skipped == {ascii(name): UNNAMABLE}
    assert table.to_arrow(columns=["id"]).to_pylist() == [{"id": 1}]
    (folder / "good.parquet").unlink()
    with pytest.raises(InvalidDataError, match="cannot be taken in"):
        write_sources(table, no_spark, replace(wanted, skips_bad_files=True))
