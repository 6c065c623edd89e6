"""How an upsert grows with its table: ours alone, in this process, three rounds of each size.

What is touched stays the same along each axis, or grows with the input; the last column says by how
many times the work grew for each time that the input did. Above 1 it grows faster than its input.

- groups: file groups in the table (bucket index); eight of them are touched.
- indexed: file groups in a table with a record index; 100 keys in eight of them are updated.
- partitions: a tenth of the rows, in every partition.
- rows: a tenth of the rows, in eight partitions.
- columns: a tenth of 50,000 rows with so many columns.
- text: a tenth of 20,000 rows, one column of them with so many characters.
- nested: a tenth of 20,000 rows, one column of them with lists of so many structs.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.indexed_table import add_file_groups, begin_indexed
from bench.measurement import machine_object
from bench.quiet import LOAD_MAX, wait_for_quiet
from tideline.lake_table import LakeTable
from tideline.testing.faulty_store_proxy import FaultyStoreProxy
from tideline.testing.minio_server import MinioServer

ROUNDS = 3
SIZES = {
    "groups": (10, 100, 1_000, 10_000),
    "indexed": (100, 1_000, 10_000, 100_000),
    "partitions": (1, 10, 100, 1_000, 10_000),
    "rows": (40_000, 400_000, 2_000_000),
    "columns": (12, 100, 300),
    "text": (100, 1_000, 10_000),
    "nested": (1, 10, 100),
}
_TOUCHED = 8
_ROWS_OF_A_GROUP = 200
_NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@dataclass(frozen=True, slots=True)
class Case:
    """One size of one axis: the table's rows, those of the batch, and how the table is made.

    `input` is what the work is held against: what is written, or touched of the table.
    """

    rows: int
    input: int
    partitions: int = 8
    buckets: int | None = None
    indexed_groups: int = 0
    columns: int = 12
    text_characters: int = 0
    structs: int = 0

    @classmethod
    def of(cls, axis: str, size: int) -> Case:
        """The case of an axis at a size."""
        return _AXES[axis](size)

    def create(self, uri: str, storage: Mapping[str, str]) -> LakeTable:
        """The table with its rows."""
        properties = {}
        if self.buckets:
            properties = {
                "hoodie.index.type": "BUCKET",
                "hoodie.bucket.index.num.buckets": str(self.buckets),
            }
        made = LakeTable.create(
            uri,
            record_key="id",
            ordering="v",
            partition_by=() if self.buckets else ("part",),
            properties=properties,
            storage_options=storage,
        )
        if self.indexed_groups:
            begin_indexed(uri, storage)
        made.write(self._table(np.arange(self.rows), 0), "insert", options=_NO_SERVICES)
        if self.indexed_groups:
            add_file_groups(uri, storage, self.indexed_groups, self.partitions)
        return LakeTable.open(uri, storage_options=storage)

    def batch(self, table: LakeTable, number: int) -> pa.Table:
        """The rows of one upsert."""
        if self.indexed_groups:
            return self._table(np.arange(number, number + 100), number)
        if not self.buckets:
            return self._table(np.arange(number, self.rows, 10), number)
        stored = table.to_arrow(["_hoodie_file_name", "id"])
        groups: dict[str, int] = {}
        for row in stored.slice(0, 200 * _TOUCHED).to_pylist():
            groups.setdefault(row["_hoodie_file_name"][:8], int(row["id"][1:]))
        return self._table(np.array(list(groups.values())[:_TOUCHED]), number)

    def _table(self, numbers: np.ndarray, v: int) -> pa.Table:
        columns: dict[str, Any] = {
            "id": pa.array(np.char.add("k", np.char.zfill(numbers.astype("U9"), 9))),
            "part": pa.array(np.char.add("p", (numbers % self.partitions).astype("U6"))),
            "v": pa.array(np.full(len(numbers), v)),
        }
        if self.text_characters:
            columns["text"] = _texts(numbers, v, self.text_characters)
        if self.structs:
            columns["nested"] = _structs(numbers, v, self.structs)
        for position in range(self.columns - len(columns)):
            values = (numbers * (position + 7)) % 1_000_003
            texts = position % 4 == 3
            columns[f"c{position}"] = pa.array(values.astype("U12") if texts else values * 0.5)
        return pa.table(columns)


_AXES: Mapping[str, Callable[[int], Case]] = {
    "groups": lambda size: Case(size * _ROWS_OF_A_GROUP, _TOUCHED, 1, buckets=size),
    "indexed": lambda size: Case(1_600, _TOUCHED, indexed_groups=size),
    "partitions": lambda size: Case(50_000, size, size),
    "rows": lambda size: Case(size, size // 10),
    "columns": lambda size: Case(50_000, size, columns=size),
    "text": lambda size: Case(20_000, size, text_characters=size),
    "nested": lambda size: Case(20_000, size, structs=size),
}


def _texts(numbers: np.ndarray, v: int, characters: int) -> pa.Array:
    """Text of letters that does not compress to nothing, other of each row and round."""
    letters = np.random.default_rng([v, characters]).integers(97, 123, len(numbers) * characters)
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * characters
    data = pa.py_buffer(letters.astype(np.uint8))
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), data)


def _structs(numbers: np.ndarray, v: int, structs: int) -> pa.Array:
    """A list of structs for each row."""
    count = len(numbers) * structs
    items = pa.StructArray.from_arrays(
        [pa.array((np.arange(count) * (v + 7)) % 1_000_003), pa.array(np.arange(count) * 0.5)],
        ["a", "b"],
    )
    return pa.ListArray.from_arrays(np.arange(len(numbers) + 1, dtype=np.int32) * structs, items)


def measure(case: Case) -> dict[str, Any]:
    """Seconds and processor seconds of each round, and the peak of this process' memory."""
    with tempfile.TemporaryDirectory() as folder:
        table = case.create(f"{folder}/table", {})
        seconds, core_seconds = [], []
        for number in range(1, ROUNDS + 1):
            rows = case.batch(table, number)
            begun = time.perf_counter()
            report = table.write(rows, options=_NO_SERVICES)
            seconds.append(time.perf_counter() - begun)
            core_seconds.append(report.core_seconds)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "coreSeconds": core_seconds, "peakBytes": peak_bytes}


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
def _counted_store() -> Iterator[tuple[FaultyStoreProxy, Mapping[str, str], str]]:
    with MinioServer() as server, FaultyStoreProxy(server.address) as proxy:
        os.environ.update(server.environment())
        storage = {**server.storage_options(), "endpoint": proxy.endpoint}
        yield proxy, storage, server.create_bucket()


def measure_axes(axes: Sequence[str] = tuple(SIZES)) -> dict[str, list[dict[str, Any]]]:
    """Every size of every axis, each in a process of its own: times first, then requests, which a
    busy machine does not change."""
    times = {axis: [_timed(axis, size) for size in SIZES[axis]] for axis in axes}
    print("  times are measured: the machine need not be quiet any more", flush=True)
    for axis, rows in times.items():
        for row in rows:
            print(f"  requests: {axis} {row['size']:,}", flush=True)
            row["requests"] = _in_a_process("requests", axis, row["size"])
    return times


def main() -> int:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("axes", nargs="*", default=[*SIZES], help="rows, groups, ...")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--wait", type=float, default=0, help="minutes to wait for a quiet machine")
    parser.add_argument("--one", nargs=3, metavar=("WHAT", "AXIS", "SIZE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        what, axis, size = chosen.one
        case = Case.of(axis, int(size))
        print(json.dumps(measure(case) if what == "time" else requests(case)))
        return 0
    load = wait_for_quiet(chosen.wait * 60)
    found = measure_axes(chosen.axes)
    for axis, rows in found.items():
        _print(axis, rows)
    if chosen.json:
        chosen.json.write_text(json.dumps({**machine_object(load), "axes": found}, indent=2))
    if load > LOAD_MAX:
        print(f"the machine was busy (load {load:.2f} at the start): these times do not count")
        return 3
    return 0


def growth(row: Mapping[str, Any], first: Mapping[str, Any]) -> float:
    """By how many times the processor time grew for each time that the input did."""
    core_seconds_grew = median(row["coreSeconds"]) / median(first["coreSeconds"])
    input_grew: float = row["input"] / first["input"]
    return float(core_seconds_grew / input_grew)


def _timed(axis: str, size: int) -> dict[str, Any]:
    found: dict[str, Any] = {"size": size, "input": Case.of(axis, size).input}
    found |= _in_a_process("time", axis, size)
    took, cores = median(found["seconds"]), median(found["coreSeconds"])
    print(f"  {axis} {size:,}: {took:.2f} s, {cores:.2f} core-seconds", flush=True)
    return found


def _in_a_process(what: str, axis: str, size: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.growth", "--one", what, axis, str(size)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return measured


def _print(axis: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{axis:>12}{'seconds':>10}{'core-s':>10}{'memory':>10}{'requests':>10}{'growth':>9}")
    for row in rows:
        print(
            f"{row['size']:>12,}{median(row['seconds']):>10.2f}{median(row['coreSeconds']):>10.2f}"
            f"{row['peakBytes'] >> 20:>6} MiB{sum(row['requests'].values()):>10,}"
            f"{growth(row, rows[0]):>8.2f}x"
        )


if __name__ == "__main__":
    sys.exit(main())
