"""The benches' input: rows that look like a table people have, the same on every machine.

2,000,000 rows of 11 columns in 8 partitions, about 110 MB as snappy parquet, generated from a fixed
seed. A batch of changes updates 10 % of the keys and inserts 1 % new ones. Files are kept in the
benches' folder and generated once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PARTITIONS = tuple(f"region-{number}" for number in range(8))
STATES = ("created", "packed", "shipped", "delivered", "returned")
RECORD_KEY = "order_id"
PARTITION_BY = "region"
ORDERING = "updated_at"

SCHEMA = pa.schema(
    [
        (RECORD_KEY, pa.string()),
        (PARTITION_BY, pa.string()),
        (ORDERING, pa.int64()),
        ("customer", pa.int32()),
        ("units", pa.int32()),
        ("price", pa.float64()),
        ("weight", pa.float64()),
        ("state", pa.string()),
        ("note", pa.string()),
        ("ordered_on", pa.date32()),
        ("seen_at", pa.timestamp("us", tz="UTC")),
    ]
)

_DAY_US = 86_400_000_000
_FIRST_DAY = 20_000


@dataclass(frozen=True, slots=True)
class BenchInput:
    """Parquet files of one size of the bench: the table's rows, and batches of changes to them.

    `updates` are the batches without the rows that they add.
    """

    rows: int
    base: Path
    changes: tuple[Path, ...]
    updates: tuple[Path, ...]

    @property
    def changed_rows(self) -> int:
        """Rows in one batch of changes: a tenth of the table updated, a hundredth added."""
        return self.rows // 10 + self.rows // 100


def prepare_input(directory: Path, *, rows: int = 2_000_000, batches: int = 3) -> BenchInput:
    """Generate what is missing in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    base = directory / f"base-{rows}.parquet"
    if not base.exists():
        _write(base, orders(np.arange(rows), seed=0, report=0))
    changes, updates = [], []
    for number in range(batches):
        path = directory / f"changes-{rows}-{number}.parquet"
        if not path.exists():
            _write(path, change_batch(rows, number))
        changes.append(path)
        path = directory / f"updates-{rows}-{number}.parquet"
        if not path.exists():
            _write(path, change_batch(rows, number, adds=False))
        updates.append(path)
    return BenchInput(rows, base, tuple(changes), tuple(updates))


def change_batch(rows: int, number: int, *, adds: bool = True) -> pa.Table:
    """A tenth of the existing keys, drawn evenly, and, unless it `adds` none, a hundredth of new
    ones, in mixed order."""
    generator = np.random.default_rng(1000 + number)
    updated = generator.choice(rows, rows // 10, replace=False)
    added = np.arange(rows, rows + (rows // 100 if adds else 0))
    numbers = generator.permutation(np.concatenate([updated, added]))
    return orders(numbers, seed=2000 + number, report=number + 1)


def orders(numbers: np.ndarray, *, seed: int, report: int) -> pa.Table:
    """Rows for these order numbers; key and partition depend on the number alone."""
    generator = np.random.default_rng(seed)
    count = len(numbers)
    scattered = (numbers.astype(np.uint64) * np.uint64(2654435761)) % np.uint64(1 << 32)
    days = _FIRST_DAY + (scattered % np.uint64(730)).astype(np.int32)
    columns = [
        _texts("o", scattered, 10),
        pa.array(PARTITIONS).take(pa.array((scattered % np.uint64(8)).astype(np.int32))),
        pa.array(1_700_000_000_000 + report * 1_000_000 + generator.integers(0, 1_000_000, count)),
        pa.array(generator.integers(0, 250_000, count, dtype=np.int32)),
        pa.array(generator.integers(1, 40, count, dtype=np.int32)),
        pa.array(np.round(generator.gamma(2.0, 40.0, count), 2)),
        pa.array(generator.normal(12.0, 4.0, count)),
        pa.array(STATES).take(pa.array(generator.integers(0, len(STATES), count))),
        _texts("note ", generator.integers(0, 1 << 40, count, dtype=np.uint64), 13),
        pa.array(days, pa.date32()),
        pa.array(
            days.astype(np.int64) * _DAY_US + generator.integers(0, 86_400, count) * 1_000_000,
            pa.timestamp("us", tz="UTC"),
        ),
    ]
    return pa.table(columns, schema=SCHEMA)


def _texts(prefix: str, numbers: np.ndarray, width: int) -> pa.Array:
    digits = np.char.zfill(numbers.astype(f"U{width}"), width)
    return pa.array(np.char.add(prefix, digits), pa.string())


def _write(path: Path, rows: pa.Table) -> None:
    unfinished = path.with_suffix(".unfinished")
    pq.write_table(rows, unfinished, row_group_size=250_000)
    unfinished.rename(path)
