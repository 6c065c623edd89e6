"""Rows of Lance files, and what is said where the library that reads them is missing."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.formats.base_file import OpenFile, open_rows
from tideline.formats.parquet_footer import MAX_RECORD_KEY, MIN_RECORD_KEY
from tideline.testing.hand_written_table import write_lance


def lance_file(folder: Path) -> Path:
    path = folder / "f.lance"
    columns = {"n": range(20), "text": [None, "x"] * 10}
    keys = {MIN_RECORD_KEY: "a", MAX_RECORD_KEY: "z"}
    write_lance(pa.table(columns).replace_schema_metadata(keys), path)
    return path


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(UnsupportedTableError, match=r"needs the extra \[lance\].*f\.lance"):
        open_rows("lance", OpenFile(BytesIO(b""), "f.lance"))


@pytest.mark.interop
@pytest.mark.usefixtures("lance_library")
@pytest.mark.parametrize("is_local", [True, False])
def test_rows_are_read_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_BYTES", 1)
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_ROWS_MIN", 7)
    path = lance_file(tmp_path)
    with path.open("rb") as stream:
        rows = open_rows("lance", OpenFile(stream, "f", str(path) if is_local else None))
        if not is_local:
            path.unlink()
        batches = list(rows.batches(["text"]))
        assert [batch.num_rows for batch in batches] == [7, 7, 6]
        assert pa.Table.from_batches(batches)["text"].to_pylist() == [None, "x"] * 10
        assert sum(batch.num_rows for batch in rows.batches([])) == rows.row_count == 20
        assert rows.schema.names == ["n", "text"]
        assert (rows.footer().min_key, rows.footer().max_key) == ("a", "z")


@pytest.mark.interop
@pytest.mark.usefixtures("lance_library")
def test_a_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "empty.lance"
    write_lance(pa.schema([("n", pa.int64())]).empty_table(), path)
    with path.open("rb") as stream:
        rows = open_rows("lance", OpenFile(stream, "f", str(path)))
        assert list(rows.batches(["n"])) == []
        assert rows.schema.names == ["n"]


@pytest.mark.interop
@pytest.mark.usefixtures("lance_library")
def test_a_file_that_is_no_lance_file_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    path.write_bytes(b"PAR1" * 100)
    with path.open("rb") as stream, pytest.raises(OSError, match="Lance file") as broken:
        open_rows("lance", OpenFile(stream, "f", str(path)))
    assert broken.value.errno is None
