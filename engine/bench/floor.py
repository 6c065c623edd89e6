"""The floor: pyarrow alone, reading files and writing them again with two processes.

It knows nothing of keys, logs or commits. No engine that rewrites these files can be much faster on
this machine; how far above it one is says more than seconds do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

PROCESSES = 2


class Floor:
    """Two warm processes of pyarrow."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"))

    def __enter__(self) -> Self:
        list(self._pool.map(abs, range(PROCESSES)))
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def rewrite(self, files: Sequence[Path], folder: Path) -> float:
        """Seconds that reading these files and writing their rows to as many new ones takes."""
        folder.mkdir(parents=True)
        pairs = [(file, folder / f"{number}.parquet") for number, file in enumerate(files)]
        begun = time.perf_counter()
        list(self._pool.map(_rewrite, pairs))
        return time.perf_counter() - begun


def data_files(table: Path, newer_than: Path | None = None) -> list[Path]:
    """The parquet files in a table's partitions; with `newer_than`, a former copy of the table,
    those that it did not have."""
    files = (path for path in table.rglob("*.parquet") if ".hoodie" not in path.parts)
    if newer_than is None:
        return sorted(files)
    return sorted(path for path in files if not (newer_than / path.relative_to(table)).exists())


def _rewrite(pair: tuple[Path, Path]) -> None:
    source, target = pair
    pa.set_cpu_count(1)
    rows = pq.read_table(source, use_threads=False)
    pq.write_table(rows, target, compression="snappy")
