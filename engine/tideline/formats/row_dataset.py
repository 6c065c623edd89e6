"""Rows that are read when they are wanted, as a pyarrow Dataset.

DuckDB, Polars and pyarrow read a Dataset with the columns and the filter that they need; here both
go to what reads the rows. A filter is always applied whole: a consumer that hands one over does not
look at the rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tideline.errors import TidelineError

OpenRows = Callable[[Sequence[str], Any, int | None], pa.RecordBatchReader]
"""Opens the rows with these columns, in this order, for which a condition holds; None for all. Of
these it gives as many as the last argument says at most, all for None."""


class RowDataset(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """A Dataset over `open_rows`; `failure` is the error of the newest read, where it failed.
    `count_all` counts the rows where that takes less than reading a column.

    Consumers in other languages turn an error into a text of theirs: this is the error itself.
    """

    def __init__(
        self,
        schema: pa.Schema,
        open_rows: OpenRows,
        count_all: Callable[[], int] | None = None,
    ) -> None:
        # Not Dataset's own: beneath is no dataset of Arrow's, so all methods of one are given here.
        self._schema = schema
        self._open_rows = open_rows
        self._count_all = count_all
        self.failure: TidelineError | None = None

    def __repr__(self) -> str:
        return f"<RowDataset: {', '.join(self._schema.names)}>"

    def __reduce__(self) -> Any:
        raise TypeError("rows of a table are not pickled: open the table where they are read")

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def partition_expression(self) -> pc.Expression:
        return pc.scalar(True)

    def scanner(
        self, columns: Any = None, filter: Any = None, *, limit: int | None = None, **_: Any
    ) -> RowScanner:
        """The rows, to be read once: names of columns, or expressions by name, a condition, and
        how many at most.

        How much is read ahead is not Arrow's to decide here: its settings have no effect.
        """
        read = self._schema.names if columns is None or isinstance(columns, dict) else columns
        # Some column must give the number of rows: one with values, where there is one.
        typed = [item.name for item in self._schema if not pa.types.is_null(item.type)]
        names = list(dict.fromkeys(read)) or (typed or self._schema.names)[:1]
        # A table has no columns before its first write, and so no rows.
        nothing = pa.RecordBatchReader.from_batches(self._schema, iter(()))
        rows = self._open_rows(names, filter, limit) if names else nothing
        watched = pa.RecordBatchReader.from_batches(rows.schema, self._watched(rows))
        return RowScanner(self._schema, watched, columns)

    def to_batches(self, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        return self.scanner(*args, **kwargs).to_batches()

    def to_table(self, *args: Any, **kwargs: Any) -> pa.Table:
        return self.scanner(*args, **kwargs).to_table()

    def head(self, num_rows: int, *args: Any, **kwargs: Any) -> pa.Table:
        return self.scanner(*args, **{**kwargs, "limit": num_rows}).to_table()

    def take(self, indices: Any, *args: Any, **kwargs: Any) -> pa.Table:
        return self.scanner(*args, **kwargs).take(indices)

    def count_rows(self, filter: Any = None, **_: Any) -> int:
        if filter is None and self._count_all is not None:
            return self._count_all()
        return self.scanner([], filter).count_rows()

    def filter(self, expression: Any) -> RowDataset:
        """The rows for which a condition holds as well."""

        def open_rows(
            columns: Sequence[str], condition: Any, limit: int | None
        ) -> pa.RecordBatchReader:
            both = expression if condition is None else expression & condition
            return self._open_rows(columns, both, limit)

        return RowDataset(self._schema, open_rows)

    def get_fragments(self, filter: Any = None) -> Iterator[Any]:
        raise NotImplementedError("logs change what files hold: read the Dataset, not its files")

    def replace_schema(self, schema: pa.Schema) -> ds.Dataset:
        return self._in_memory().replace_schema(schema)

    def sort_by(self, sorting: Any, **settings: Any) -> ds.Dataset:
        return self._in_memory().sort_by(sorting, **settings)

    def join(self, *args: Any, **kwargs: Any) -> ds.Dataset:
        return self._in_memory().join(*args, **kwargs)

    def join_asof(self, *args: Any, **kwargs: Any) -> ds.Dataset:
        return self._in_memory().join_asof(*args, **kwargs)

    def _in_memory(self) -> ds.Dataset:
        return ds.dataset(self.to_table())

    def _watched(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        self.failure = None
        try:
            yield from rows
        except TidelineError as error:
            self.failure = error
            raise


class RowScanner:
    """Rows of a Dataset, read once, with the methods of pyarrow's Scanner.

    Arrow's own would read ahead in threads that outlive a consumer with enough rows.
    """

    def __init__(
        self,
        schema: pa.Schema,
        rows: pa.RecordBatchReader,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None,
    ) -> None:
        self.dataset_schema = schema
        self._rows = rows
        self._columns = columns
        self.projected_schema: pa.Schema = self._projected(_empty(rows.schema)).schema

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(
            self.projected_schema, map(self._projected, self._rows)
        )

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return map(self._projected, self._rows)

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(list(self.to_batches()), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        for batch in self._rows:
            found.append(self._projected(batch))
            if sum(item.num_rows for item in found) >= num_rows:
                break
        return pa.Table.from_batches(found, self.projected_schema).slice(0, num_rows)

    def take(self, indices: Any) -> pa.Table:
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self._rows)

    def _projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._columns is None:
            return batch
        if not isinstance(self._columns, Mapping):
            return batch.select(list(self._columns))
        table = pa.Table.from_batches([batch])
        computed = ds.dataset(table).to_table(columns=dict(self._columns)).combine_chunks()
        return pa.RecordBatch.from_arrays(
            [_whole(column) for column in computed.columns], schema=computed.schema
        )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)
