"""Conditions on rows, as pyarrow has them: which columns they read, what they rule out.

Given as an expression (`pc.field("ts") > 5`) or as a list of comparisons (`[("ts", ">", 5)]`, which
all have to hold; a list of such lists: all of any).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from tideline.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on rows of `schema`; `columns` are those that it reads."""

    expression: pc.Expression
    columns: frozenset[str]
    schema: pa.Schema

    @classmethod
    def of(cls, given: Any, schema: pa.Schema) -> RowFilter:
        """Raises ConfigError for what is no condition on rows of this schema."""
        try:
            expression = given if isinstance(given, pc.Expression) else _expression(given)
            _selects(expression, schema)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(f"no condition on the table's rows: {reason}", value=given) from error
        columns = [name for name in schema.names if _is_read(expression, schema, name)]
        return cls(expression, frozenset(columns), schema)

    def and_also(self, other: RowFilter | None) -> RowFilter:
        """Both conditions, of the same rows."""
        if other is None:
            return self
        both = self.expression & other.expression
        return RowFilter(both, self.columns | other.columns, self.schema)

    def selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch for which the condition holds."""
        return batch.filter(self.expression)

    def possible(self, guarantees: Iterable[pc.Expression]) -> list[int]:
        """The numbers of the guarantees that the condition does not contradict.

        A guarantee is what all rows of a partition, or of a row group, have in common.
        """
        file_format, local = ds.ParquetFileFormat(), fs.LocalFileSystem()
        # Nothing is opened: a fragment is named by its number.
        fragments = [
            file_format.make_fragment(str(number), local, partition_expression=guarantee)
            for number, guarantee in enumerate(guarantees)
        ]
        dataset = ds.FileSystemDataset(fragments, self.schema, file_format, local)
        return [int(one.path) for one in dataset.get_fragments(filter=self.expression)]


def _expression(given: Any) -> pc.Expression:
    expression = pq.filters_to_expression(given)
    if not isinstance(expression, pc.Expression):
        raise TypeError(f"write pyarrow.compute.field(name) > value, not {given!r}")
    return expression


def _selects(expression: pc.Expression, schema: pa.Schema) -> None:
    schema.empty_table().filter(expression)


def _is_read(expression: pc.Expression, schema: pa.Schema, name: str) -> bool:
    """Whether the condition means nothing without the column: Arrow does not say what it reads."""
    try:
        _selects(expression, pa.schema([field for field in schema if field.name != name]))
    except (pa.ArrowException, KeyError):
        return True
    return False
