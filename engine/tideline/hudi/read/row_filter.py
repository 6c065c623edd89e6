"""Conditions on rows, as pyarrow has them: which columns they read, which partitions they rule out.

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
from tideline.hudi.read.partition_values import PartitionLayout


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

    def selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch for which the condition holds."""
        return batch.filter(self.expression)

    def possible(self, partitions: Iterable[str], layout: PartitionLayout | None) -> frozenset[str]:
        """The partitions that may hold such rows: whose values do not contradict the condition."""
        partitions = list(partitions)
        if layout is None or not self.columns & set(layout.schema.names):
            return frozenset(partitions)
        file_format = ds.ParquetFileFormat()
        local = fs.LocalFileSystem()
        # Nothing is opened: a fragment is a partition, named by its number.
        fragments = [
            file_format.make_fragment(
                str(number), local, partition_expression=_guarantee(layout, partition)
            )
            for number, partition in enumerate(partitions)
        ]
        dataset = ds.FileSystemDataset(fragments, self.schema, file_format, local)
        kept = dataset.get_fragments(filter=self.expression)
        return frozenset(partitions[int(fragment.path)] for fragment in kept)


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


def _guarantee(layout: PartitionLayout, partition: str) -> pc.Expression:
    """What all rows of a partition have in common."""
    values = layout.values(partition)
    found = pc.scalar(True)
    for field, text in zip(layout.schema, values or (), strict=False):
        column = pc.field(field.name)
        if text is None:
            found &= column.is_null()
        else:
            found &= column == pa.scalar(text).cast(field.type)
    return found
