"""How an upsert grows with its table: ours alone, in this process, three rounds of each size.

What is touched stays the same along each axis, or grows with the input; the last column says by how
many times the time grew for each time that the input did. Above 1 it grows faster than its input.

- groups: file groups in the table (bucket index); eight of them are touched.
- partitions: a tenth of the rows, in every partition.
- rows: a tenth of the rows, in eight partitions.
- columns: a tenth of 50,000 rows with so many columns.

Each size runs in a process of its own, whose peak memory counts. Requests are counted on MinIO, by
method, in a run apart: a proxy in between would slow the others down.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.quiet import LOAD_MAX, wait_for_quiet
from tideline.lake_table import LakeTable
from tideline.testing.faulty_s3_proxy import FaultyS3Proxy
from tideline.testing.minio_server import MinioServer

ROUNDS = 3
SIZES = {
    "groups": (10, 100, 1_000),
    "partitions": (1, 10, 100, 1_000),
    "rows": (40_000, 400_000, 2_000_000),
    "columns": (12, 100, 300),
}
_ROWS = 50_000
_ROWS_OF_A_GROUP = 200
_TOUCHED = 8
_NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@dataclass(frozen=True, slots=True)
class Case:
    """One size of one axis: the table's rows, those of the batch, and how the table is made."""

    axis: str
    size: int

    @property
    def rows(self) -> int:
        """In the table before the upsert."""
        if self.axis == "groups":
            return self.size * _ROWS_OF_A_GROUP
        return self.size if self.axis == "rows" else _ROWS

    @property
    def input(self) -> int:
        """What the time is held against: values written, or what is touched of the table."""
        if self.axis == "groups":
            return _TOUCHED
        return {"columns": self.size, "rows": self.rows // 10}.get(self.axis, self.size)

    def create(self, uri: str, storage: Mapping[str, str]) -> LakeTable:
        """The table with its rows."""
        properties = {}
        if self.axis == "groups":
            properties = {
                "hoodie.index.type": "BUCKET",
                "hoodie.bucket.index.num.buckets": str(self.size),
            }
        partitions = () if self.axis == "groups" else ("part",)
        made = LakeTable.create(
            uri,
            record_key="id",
            ordering="v",
            partition_by=partitions,
            properties=properties,
            storage_options=storage,
        )
        made.write(self._table(np.arange(self.rows), 0), "insert", options=_NO_SERVICES)
        return LakeTable.open(uri, storage_options=storage)

    def batch(self, table: LakeTable, number: int) -> pa.Table:
        """The rows of one upsert."""
        if self.axis != "groups":
            return self._table(np.arange(number, self.rows, 10), number)
        stored = table.to_arrow(["_hoodie_file_name", "id"])
        groups: dict[str, int] = {}
        for row in stored.slice(0, 200 * _TOUCHED).to_pylist():
            groups.setdefault(row["_hoodie_file_name"][:8], int(row["id"][1:]))
        return self._table(np.array(list(groups.values())[:_TOUCHED]), number)

    def _table(self, numbers: np.ndarray, v: int) -> pa.Table:
        partitions = {"partitions": self.size, "groups": 1}.get(self.axis, 8)
        columns: dict[str, Any] = {
            "id": pa.array(np.char.add("k", np.char.zfill(numbers.astype("U9"), 9))),
            "part": pa.array(np.char.add("p", (numbers % partitions).astype("U6"))),
            "v": pa.array(np.full(len(numbers), v)),
        }
        others = (self.size if self.axis == "columns" else 12) - len(columns)
        for position in range(others):
            values = (numbers * (position + 7)) % 1_000_003
            texts = position % 4 == 3
            columns[f"c{position}"] = pa.array(values.astype("U12") if texts else values * 0.5)
        return pa.table(columns)


def measure(case: Case) -> dict[str, Any]:
    """Seconds of each round and the peak of this process' memory."""
    with tempfile.TemporaryDirectory() as folder:
        table = case.create(f"{folder}/table", {})
        seconds = []
        for number in range(1, ROUNDS + 1):
            rows = case.batch(table, number)
            begun = time.perf_counter()
            table.write(rows, options=_NO_SERVICES)
            seconds.append(time.perf_counter() - begun)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "peakBytes": peak_bytes}


def requests(case: Case) -> dict[str, int]:
    """What one upsert sends to MinIO, by method."""
    with _counted_store() as (proxy, storage, bucket):
        table = case.create(f"s3://{bucket}/table", storage)
        rows = case.batch(table, 1)
        table = LakeTable.open(f"s3://{bucket}/table", storage_options=storage)
        before = len(proxy.requests)
        table.write(rows, options=_NO_SERVICES)
        return dict(Counter(request.method for request in proxy.requests[before:]))


@contextmanager
def _counted_store() -> Iterator[tuple[FaultyS3Proxy, Mapping[str, str], str]]:
    with MinioServer() as server, FaultyS3Proxy(server.address) as proxy:
        os.environ.update(server.environment())
        storage = {**server.storage_options(), "endpoint": proxy.endpoint}
        yield proxy, storage, server.create_bucket()


def main() -> int:
    """Measure every size in a process of its own, and print a table and the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("axes", nargs="*", default=[*SIZES], help="rows, groups, ...")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--wait", type=float, default=0, help="minutes to wait for a quiet machine")
    parser.add_argument("--one", nargs=3, metavar=("WHAT", "AXIS", "SIZE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        what, axis, size = chosen.one
        case = Case(axis, int(size))
        print(json.dumps(measure(case) if what == "time" else requests(case)))
        return 0
    load = wait_for_quiet(chosen.wait * 60)
    found = {axis: [_measured(Case(axis, size)) for size in SIZES[axis]] for axis in chosen.axes}
    for axis, rows in found.items():
        _print(axis, rows)
    if chosen.json:
        chosen.json.write_text(json.dumps({"loadAtStart": load, "axes": found}, indent=2))
    if load > LOAD_MAX:
        print(f"the machine was busy (load {load:.2f} at the start): these times do not count")
        return 3
    return 0


def _measured(case: Case) -> dict[str, Any]:
    print(f"  {case.axis} {case.size:,}", flush=True)
    found: dict[str, Any] = {"size": case.size, "input": case.input}
    found |= _in_a_process("time", case)
    found["requests"] = _in_a_process("requests", case)
    return found


def _in_a_process(what: str, case: Case) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.growth", "--one", what, case.axis, str(case.size)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return measured


def _print(axis: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{axis:>12}{'seconds':>10}{'memory':>10}{'requests':>10}{'growth':>9}")
    first = rows[0]
    for row in rows:
        times = median(row["seconds"]) / median(first["seconds"])
        growth = times / (row["input"] / first["input"])
        print(
            f"{row['size']:>12,}{median(row['seconds']):>10.2f}{row['peakBytes'] >> 20:>6} MiB"
            f"{sum(row['requests'].values()):>10,}{growth:>8.2f}x"
        )


if __name__ == "__main__":
    sys.exit(main())
