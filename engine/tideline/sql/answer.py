"""The answer to one statement, read once, batch after batch in Arrow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from tideline.hudi.read.shown_rows import ShownRows, as_many

_BATCH_ROWS = 65_536
_AS_TEXT = frozenset({"UHUGEINT", "BIGNUM", "BIT", "TIME WITH TIME ZONE"})
"""Types of queries whose values Arrow would not hold as they are."""
_INT64 = pa.int64()
_Explained = Callable[[], AbstractContextManager[None]]
"""What turns DuckDB's errors into ours."""


class Answer:
    """Columns and rows of one statement's result."""

    def __init__(self, relation: Any, explained: _Explained) -> None:
        self._explained = explained
        self._relation = _with_texts(relation)
        kinds = zip(self._relation.columns, self._relation.types, strict=True)
        self._large = [at for at, (_, kind) in enumerate(kinds) if str(kind) == "HUGEINT"]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, which a query may give more than once."""
        return tuple(self._relation.columns)

    def first_rows(self, limit: int | None) -> ShownRows:
        """At most `limit` rows, all of them for None. Raises as `SqlSession.run`."""
        with self._explained():
            reader = self._relation.to_arrow_reader(_BATCH_ROWS)
            found = pa.Table.from_batches(list(as_many(reader, limit)), reader.schema)
        for at in self._large:
            found = found.set_column(at, found.field(at).name, _whole_numbers(found.column(at)))
        return ShownRows.of(found, limit)


def _with_texts(relation: Any) -> Any:
    kinds = [str(kind) for kind in relation.types]
    if not _AS_TEXT.intersection(kinds):
        return relation
    # By number: names may occur twice.
    return relation.project(
        ", ".join(
            f"cast(#{at} as varchar) as {_quoted(name)}" if kind in _AS_TEXT else f"#{at}"
            for at, (name, kind) in enumerate(zip(relation.columns, kinds, strict=True), start=1)
        )
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Sums of integers, which DuckDB gives as decimals, as integers where they fit."""
    try:
        return column.cast(_INT64)
    except pa.ArrowInvalid:
        return column
