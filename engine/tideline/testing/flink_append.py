"""Rows written as a Flink job of Hudi does, whose index knows keys from a state and reads no file.

New keys go where the state says, to the log of a file group that is there already.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideline.hudi.write.write_operation import WriteOperation
from tideline.testing.local_engine import LocalEngine
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.write_batch import write_batch


def append_as_flink(table: SmallTable, keys: Sequence[int], v: int) -> None:
    """Upsert `batch(keys, v)` into a table that has one file group in each partition."""
    lake, rows = table.lake(), batch(keys, v)
    groups = {base.partition: base.file_id for base in lake.hoodie_table.list_base_files()}
    state = {(row["id"], row["part"]): groups[row["part"]] for row in rows.to_pylist()}
    engine = LocalEngine(lake.hoodie_table.store, rows, "id", "part", _located=state)
    write_batch(lake, engine, WriteOperation.UPSERT)
