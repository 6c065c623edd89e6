"""Thousands of small files with deletes of every age are rewritten in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.table.file_system_table import HINT_PATH
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.location import StoreLocation
from tideline.testing.iceberg_delete_table import POSITION_FIELD_ID
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_model_files import PATH_FIELD_ID
from tideline.testing.iceberg_row_delta import RowDelta

pytestmark = pytest.mark.slow

COMMITS, FILES_PER_COMMIT, ROWS_PER_FILE, VALUES_PER_COMMIT = 80, 25, 200, 500
MEMORY_BYTES_MAX = 320 * 1024 * 1024

REWRITE = """
import json, sys
from pathlib import Path
from tideline.cli.main import run
code = run(["iceberg", "rewrite", sys.argv[1], "--local", "--json"])
status = Path("/proc/self/status").read_text()
peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
print(json.dumps({"code": code, "peak_bytes": 1024 * int(peak.split()[1])}))
"""


class Stream:
    """A table as a stream of upserts leaves it: each commit deletes rows of earlier ones by value,
    and rows of its own files by position."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = IcebergModel(StoreLocation.of(folder))
        self.uri = self.model.location.uri
        store = self.model.location.open()
        template = IcebergModel.create().metadata()
        store.put("metadata/v1.metadata.json", replace(template, location=self.uri).to_bytes())
        store.put(HINT_PATH, b"1")
        (folder / "data").mkdir()
        self.rows = 0
        self.deleted: set[int] = set()
        self._chance = np.random.default_rng(1)

    def commit(self, number: int) -> None:
        added = []
        if self.rows:
            values = self._chance.integers(0, self.rows, VALUES_PER_COMMIT)
            self.deleted.update(values.tolist())
            written = self._write(f"values-{number}", {1: pa.array(values)})
            content = FileContent.EQUALITY_DELETES
            added.append(replace(written, content=content, equality_ids=(1,)))
        pairs = []
        for file in range(FILES_PER_COMMIT):
            numbers = np.arange(self.rows, self.rows + ROWS_PER_FILE)
            written = self._write(f"rows-{number}-{file}", {1: pa.array(numbers)})
            pairs.append((written.file_path, file))
            self.deleted.add(self.rows + file)
            self.rows += ROWS_PER_FILE
            added.append(written)
        paths, positions = zip(*pairs, strict=True)
        columns = {PATH_FIELD_ID: pa.array(paths), POSITION_FIELD_ID: pa.array(positions)}
        written = self._write(f"positions-{number}", columns)
        added.append(replace(written, content=FileContent.POSITION_DELETES))
        outcome = self.model._commit(self.model.operations(), RowDelta("overwrite", added))
        assert isinstance(outcome, Committed)

    def live_rows(self) -> int:
        """By the snapshot's data files, once no deletes are left for them."""
        return sum(entry.data_file.record_count for entry in self.model.files().data())

    def _write(self, name: str, columns: Mapping[int, pa.Array]) -> DataFile:
        fields = [
            pa.field(f"c{number}", array.type, False, {"PARQUET:field_id": str(number)})
            for number, array in columns.items()
        ]
        table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
        path = self.folder / "data" / f"{name}.parquet"
        pq.write_table(table, path)
        uri, size_bytes = f"{self.uri}/data/{name}.parquet", path.stat().st_size
        return DataFile(FileContent.DATA, uri, "PARQUET", 0, ("even",), table.num_rows, size_bytes)


def test_peak_memory_of_a_rewrite_of_two_thousand_files(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    stream = Stream(folder)
    for number in range(COMMITS):
        stream.commit(number)
    done = subprocess.run(
        [sys.executable, "-c", REWRITE, str(folder)], capture_output=True, text=True, check=True
    )
    *report_lines, last = done.stdout.splitlines()
    assert json.loads("\n".join(report_lines))["files_rewritten"] == COMMITS * FILES_PER_COMMIT
    measured = json.loads(last)
    assert measured["code"] == 0
    assert stream.live_rows() == stream.rows - len(stream.deleted)
    assert measured["peak_bytes"] < MEMORY_BYTES_MAX, measured
