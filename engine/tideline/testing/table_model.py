"""What a table must hold after a sequence of operations: rows in a plain dictionary.

The model shares no code with the engine. It knows keys, partitions, one ordering column and the
operations of a write, and says which rows a reader has to see. `canonical` brings rows of any
reader into the model's form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Identity = tuple[Any, ...]


class TableModel:
    """Rows by identity: record key and partition, or record key alone with a global index.

    `ordering` None means that the last write wins.
    """

    def __init__(
        self,
        *,
        record_key: Sequence[str],
        partition_by: Sequence[str] = (),
        ordering: str | None = None,
        global_index: bool = False,
    ) -> None:
        self._record_key = tuple(record_key)
        self._partition_by = tuple(partition_by)
        self._ordering = ordering
        self._global_index = global_index
        self._rows: dict[Identity, Row] = {}
        self._operations: dict[str, Callable[[Sequence[Row]], None]] = {
            "insert": self._insert,
            "bulk_insert": self._insert,
            "upsert": self._upsert,
            "delete": self._delete,
            "insert_overwrite": self._insert_overwrite,
            "insert_overwrite_table": self._insert_overwrite_table,
            "delete_partition": self._delete_partition,
        }

    def apply(self, operation: str, rows: pa.Table) -> None:
        """Apply one write. Inserts must bring new keys only: Hudi leaves duplicates undefined."""
        self._operations[operation](_plain(rows))

    def rows(self) -> list[Row]:
        """What every reader must return, in canonical form."""
        return _sorted(self._rows.values(), self._record_key + self._partition_by)

    def canonical(self, rows: pa.Table) -> list[Row]:
        """A reader's answer in the form of `rows`, without Hudi's own columns."""
        names = [name for name in rows.column_names if not name.startswith("_hoodie_")]
        return _sorted(_plain(rows.select(names)), self._record_key + self._partition_by)

    def _insert(self, rows: Sequence[Row]) -> None:
        for row in rows:
            assert self._identity(row) not in self._rows, f"not a new key: {row}"
            self._rows[self._identity(row)] = row

    def _upsert(self, rows: Sequence[Row]) -> None:
        for row in rows:
            stored = self._rows.get(self._identity(row))
            if stored is None or not self._is_newer(stored, row):
                self._rows[self._identity(row)] = row

    def _delete(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._rows.pop(self._identity(row), None)

    def _insert_overwrite(self, rows: Sequence[Row]) -> None:
        self._delete_partition(rows)
        self._insert(rows)

    def _insert_overwrite_table(self, rows: Sequence[Row]) -> None:
        self._rows.clear()
        self._insert(rows)

    def _delete_partition(self, rows: Sequence[Row]) -> None:
        gone = {self._partition(row) for row in rows}
        kept = self._rows.items()
        self._rows = {key: row for key, row in kept if self._partition(row) not in gone}

    def _is_newer(self, stored: Row, incoming: Row) -> bool:
        if self._ordering is None:
            return False
        return bool(stored[self._ordering] > incoming[self._ordering])

    def _identity(self, row: Row) -> Identity:
        key = tuple(row[name] for name in self._record_key)
        return key if self._global_index else key + self._partition(row)

    def _partition(self, row: Row) -> Identity:
        return tuple(row[name] for name in self._partition_by)


def canonical_with_meta(rows: pa.Table) -> list[Row]:
    """A reader's answer with Hudi's own columns, to compare one reader with another."""
    return _sorted(_plain(rows), ("_hoodie_record_key", "_hoodie_partition_path"))


def _plain(rows: pa.Table) -> list[Row]:
    plain: list[Row] = rows.to_pylist(maps_as_pydicts="strict")
    return plain


def _sorted(rows: Iterable[Row], names: Sequence[str]) -> list[Row]:
    return sorted(rows, key=lambda row: tuple(str(row[name]) for name in names))
