"""Reading a table's rows by the words of other libraries: Arrow, pandas, Polars, DuckDB.

All of it is `to_pyarrow_dataset`: the columns and the filter that are wanted go to the reader of
the table, which reads no more than them. Nothing here starts Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tideline.distribution import installation
from tideline.errors import ConfigError
from tideline.formats.column_choice import NO_COLUMNS, chosen_columns

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from tideline.formats.row_dataset import RowDataset

Columns = str | Sequence[str] | None
"""Names of columns, in the order that is wanted; a text is one, None is all."""


class ReadableTable(ABC):
    """What can be done with any table whose rows are read as a Dataset.

    `where` is a condition: SQL (`"n > 3 and day = '2026-11-01'"`), an expression of pyarrow or its
    list of comparisons; `filter` is another name of it where that is taken. `as_of` is a time, an
    instant, or of an Iceberg table a snapshot, a branch or a tag; the table as it is now without.
    """

    @abstractmethod
    def to_pyarrow_dataset(self, as_of: Any = None) -> RowDataset:
        """The rows of this moment, or as of a time, as a pyarrow Dataset: DuckDB, Polars and
        pyarrow read it by columns and filters. It does not change when the table does."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows, for whatever reads Arrow streams: `pyarrow.table(t)`, `polars.DataFrame(t)`,
        DuckDB's `from t`."""
        stream: object = self.to_batches().__arrow_c_stream__(requested_schema)
        return stream

    def to_batches(
        self,
        columns: Columns = None,
        where: Any = None,
        as_of: Any = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows, at most `limit`, batch after batch: memory does not depend on how many there
        are. Raises ConfigError for columns and conditions that the table does not have."""
        dataset = self.to_pyarrow_dataset(as_of)
        condition = _condition(dataset, where)
        chosen = chosen_columns(columns, dataset.schema.names)
        return dataset.scanner(chosen, condition, limit=limit).to_reader()

    def scan(
        self,
        columns: Columns = None,
        where: Any = None,
        as_of: Any = None,
        limit: int | None = None,
        *,
        filter: Any = None,
    ) -> pa.RecordBatchReader:
        """`to_batches`: the first `limit` rows for which the condition holds, batch after batch."""
        return self.to_batches(columns, one_condition(where, filter), as_of, limit)

    def to_arrow(
        self,
        columns: Columns = None,
        where: Any = None,
        as_of: Any = None,
        limit: int | None = None,
        *,
        filter: Any = None,
    ) -> pa.Table:
        """The rows as `scan` reads them, all in memory."""
        return self.scan(columns, where, as_of, limit, filter=filter).read_all()

    def head(self, rows: int = 5, columns: Columns = None, where: Any = None) -> pa.Table:
        """The first rows, in the order in which they are stored; little more is read."""
        return self.to_batches(columns, where, limit=rows).read_all()

    def count(self, where: Any = None, as_of: Any = None) -> int:
        """How many rows there are, or for how many a condition holds."""
        dataset = self.to_pyarrow_dataset(as_of)
        return dataset.count_rows(_condition(dataset, where))

    def to_pandas(
        self,
        columns: Columns = None,
        where: Any = None,
        as_of: Any = None,
        limit: int | None = None,
        **settings: Any,
    ) -> pd.DataFrame:
        """The rows as a DataFrame of pandas, all in memory; `settings` are those of pyarrow's
        `Table.to_pandas`."""
        _require("pandas", "spark")
        return self.to_batches(columns, where, as_of, limit).read_all().to_pandas(**settings)

    def to_polars(
        self,
        columns: Columns = None,
        where: Any = None,
        as_of: Any = None,
        limit: int | None = None,
    ) -> pl.DataFrame:
        """The rows as a DataFrame of Polars, all in memory; `to_polars_lazy` reads less."""
        polars = _require("polars", "polars")
        found: pl.DataFrame = polars.from_arrow(
            self.to_batches(columns, where, as_of, limit).read_all()
        )
        return found

    def to_polars_lazy(self, as_of: Any = None) -> pl.LazyFrame:
        """A LazyFrame of Polars: of the rows of this moment a query reads the columns and rows that
        it needs, into memory."""
        polars = _require("polars", "polars")
        found: pl.LazyFrame = polars.scan_pyarrow_dataset(self.to_pyarrow_dataset(as_of))
        return found

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, as_of: Any = None
    ) -> duckdb.DuckDBPyRelation:
        """A relation of DuckDB, in `connection` or its own default: a query over the rows of this
        moment reads the columns and rows that it needs, batch after batch. Raises ConfigError for
        a table without columns, which DuckDB does not have."""
        found = _require("duckdb", "sql")
        reader = found if connection is None else connection
        dataset = self.to_pyarrow_dataset(as_of)
        if not dataset.schema.names:
            raise ConfigError(NO_COLUMNS)
        return reader.from_arrow(dataset)


def one_condition(where: Any, filter: Any) -> Any:
    """The condition that one of its two names gives. Raises ConfigError where both do."""
    if where is not None and filter is not None:
        raise ConfigError("where and filter are names of the same condition: give where alone")
    return filter if where is None else where


def _condition(dataset: RowDataset, where: Any) -> Any:
    from tideline.formats.row_filter import RowFilter

    return None if where is None else RowFilter.of(where, dataset.schema).expression


def _require(package: str, extra: str) -> Any:
    try:
        return __import__(package)
    except ImportError as error:
        raise ConfigError(f"{package} is not installed: {installation(extra)}") from error
