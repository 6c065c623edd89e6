"""Conditions on rows, as pyarrow has them: which columns they read, what they rule out.

Given in SQL (`"ts > 5"`), as an expression (`pc.field("ts") > 5`) or as a list of comparisons
(`[("ts", ">", 5)]`, which all have to hold; a list of such lists: all of any).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from tideline.errors import ConfigError
from tideline.formats.filter_expression import sql_expression

_BY_NUMBER = "FieldPath("
"""How Arrow prints a column that is named by its number."""
_GUARANTEES_MAX = 16
_NUMBER = "\0row"
"""No column has this name."""


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
            expression = _expression(given, schema)
            _selects(expression, schema)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            said = printed(given) if isinstance(given, pc.Expression) else given
            raise ConfigError(f"no condition on the table's rows: {reason}", value=said) from error
        text = printed(expression)
        if _BY_NUMBER in text:
            raise ConfigError("name the columns of a condition, not their numbers", value=text)
        named = [name for name in schema.names if name in text]
        columns = [name for name in named if _is_read(expression, schema, named, name)]
        return cls(expression, frozenset(columns), schema)

    def without(self, names: Iterable[str]) -> RowFilter:
        """The same, where only other columns are asked what they rule out."""
        return replace(self, columns=self.columns - set(names))

    def and_also(self, other: RowFilter | None) -> RowFilter:
        """Both conditions, of the same rows."""
        if other is None:
            return self
        both = self.expression & other.expression
        return RowFilter(both, self.columns | other.columns, self.schema)

    def selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch for which the condition holds. Raises ConfigError where it cannot be
        asked of a value."""
        try:
            return batch.filter(self.expression)
        except pa.ArrowException as error:
            raise ConfigError(
                f"the condition does not suit a value: {error}", value=printed(self.expression)
            ) from error

    def numbers(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Which rows of a batch those are, counted from 0. Raises as `selected`."""
        counted = pa.array(np.arange(batch.num_rows, dtype=np.int64))
        found = self.selected(batch.append_column(_NUMBER, counted)).column(_NUMBER)
        numbers: npt.NDArray[np.int64] = found.to_numpy()
        return numbers

    def possible(self, guarantees: Iterable[pc.Expression]) -> list[int]:
        """The numbers of the guarantees that the condition does not contradict; of all where it
        cannot be asked of a value in one of them.

        A guarantee is what all rows of a partition, or of a row group, have in common.
        """
        file_format, local = ds.ParquetFileFormat(), fs.LocalFileSystem()
        # Nothing is opened: a fragment is named by its number.
        fragments = [
            file_format.make_fragment(str(number), local, partition_expression=guarantee)
            for number, guarantee in enumerate(guarantees)
        ]
        dataset = ds.FileSystemDataset(fragments, self.schema, file_format, local)
        try:
            return [
                int(fragment.path) for fragment in dataset.get_fragments(filter=self.expression)
            ]
        except pa.ArrowException:
            # A bound is a value that no row may have: `selected` says so where one has it.
            return list(range(len(fragments)))

    def may_hold(self, known: Iterable[Sequence[pc.Expression]]) -> bool:
        """Whether the condition does not contradict what is known of some rows: of each column what
        one of several expressions says, such as a range or that it is null.

        Arrow makes little of what is joined by OR, so every combination is asked about.
        """
        said = list(known)
        if not said:
            return True
        guarantees = [pc.scalar(True)]
        for either in said:
            if len(guarantees) * len(either) > _GUARANTEES_MAX:
                either = [reduce(operator.or_, either)]
            guarantees = [guarantee & other for guarantee in guarantees for other in either]
        return bool(self.possible(guarantees))


def printed(expression: pc.Expression) -> str:
    """A condition as Arrow prints it, which cuts long texts wherever it is, also within a
    character."""
    try:
        return str(expression)
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


def _expression(given: Any, schema: pa.Schema) -> pc.Expression:
    if isinstance(given, str):
        return sql_expression(given, schema)
    if isinstance(given, pc.Expression):
        return given
    expression = pq.filters_to_expression(given)
    if not isinstance(expression, pc.Expression):
        raise TypeError(f"write pyarrow.compute.field(name) > value, not {given!r}")
    return expression


def _selects(expression: pc.Expression, schema: pa.Schema) -> None:
    schema.empty_table().filter(expression)


def _is_read(expression: pc.Expression, schema: pa.Schema, named: Iterable[str], name: str) -> bool:
    """Whether the condition means nothing without the column: Arrow does not say what it reads."""
    try:
        _selects(expression, pa.schema([schema.field(entry) for entry in named if entry != name]))
    except (pa.ArrowException, KeyError):
        return True
    return False


def having(values: Mapping[str, pa.Scalar]) -> pc.Expression:
    """What rows with these values in these columns have in common."""
    found = pc.scalar(True)
    for name, value in values.items():
        column = pc.field(name)
        found &= column == value if value.is_valid else column.is_null()
    return found
