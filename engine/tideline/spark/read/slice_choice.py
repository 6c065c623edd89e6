"""The slices of a scan that Spark reads for a query, chosen once it has planned the filters of it.

Spark asks for the files of each relation with the filters that it has pushed down to it, as its own
readers are asked (`BaseFileRelation`). They are answered here, on the driver:

1. The filters become a condition in Arrow (`planned_filters`), as far as they can be: those of
   columns that the files have in the table's types.
2. What the condition leaves of the scan's slices is what it leaves in Arrow: by indexes of keys and
   values, by statistics of partitions and of files (`hudi.read.file_pruning`).

Which groups were read that way is known afterwards: rows that a condition selects are in these.
Files are never left out by mistake of Spark's: it asks all filters again of the rows. What goes
wrong here leaves out none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from threading import Lock

import pyarrow as pa

from tideline.formats.row_filter import RowFilter
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.read.arrow_scan import nullable
from tideline.hudi.read.file_pruning import slices_with_rows
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.spark.read.planned_filters import planned_filter

_ANSWERS_MAX = 16

_log = logging.getLogger(__name__)


class SliceChoice:
    """The choice among the slices of one scan. Answers are kept: Spark asks more than once."""

    def __init__(self, table: HoodieTable, scan: TableScan) -> None:
        self.table = table
        self.scan = scan
        self.layout = PartitionLayout.of(table.config, scan.schema)
        self._context: SliceContext | None = None
        self._answers: dict[str, frozenset[FileGroupId] | None] = {}
        self._lock = Lock()
        self._choosers: list[Chooser] = []

    def of(self, groups: Mapping[str, FileGroupId], stored: pa.Schema) -> Chooser:
        """What answers for a relation whose files, by name, are those of these groups, with the
        columns that it gives Spark."""
        self._choosers.append(Chooser(self, groups, stored))
        return self._choosers[-1]

    def groups_read(self) -> frozenset[FileGroupId]:
        """The file groups that queries have read so far; those of a relation that was not asked
        for its files are among them."""
        return frozenset(group for chooser in self._choosers for group in chooser.groups_read())

    def groups(self, filters: str, stored: pa.Schema) -> frozenset[FileGroupId] | None:
        """The file groups that may hold rows for which the filters hold; None for all."""
        full = nullable(self.scan.schema)
        alike = [field for field in full if _has_type(stored, field)]
        condition = planned_filter(filters, pa.schema(alike))
        if condition is None:
            return None
        # All slices are asked by all columns that they have.
        asked = RowFilter.of(condition, full)
        key = str(condition)
        with self._lock:
            if key not in self._answers:
                if len(self._answers) >= _ANSWERS_MAX:
                    self._answers.clear()
                self._answers[key] = self._asked(asked)
            return self._answers[key]

    def _asked(self, condition: RowFilter) -> frozenset[FileGroupId] | None:
        if self._context is None:
            self._context = self.scan.slice_context(self.table)
        slices = self.scan.all_slices()
        left = slices_with_rows(
            self.table, slices, condition, self._context, self.layout, self.scan.newest
        )
        _log.debug("%d of %d file slices are read", len(left), len(slices))
        return (
            None if len(left) == len(slices) else frozenset(file_slice.group for file_slice in left)
        )


class Chooser:
    """`file_index.FileChooser` for one relation, as Java sees it."""

    def __init__(
        self, choice: SliceChoice, groups: Mapping[str, FileGroupId], stored: pa.Schema
    ) -> None:
        self._choice = choice
        self._groups = groups
        self._stored = stored
        self._answers: list[frozenset[FileGroupId] | None] = []

    def apply(self, filters: str | None) -> str | None:
        """Raises nothing: Java would not say so. No filters are given where there are none that
        Java could print."""
        kept = None
        try:
            kept = None if filters is None else self._choice.groups(filters, self._stored)
        except Exception as error:
            _log.warning("no file is left out: %s", error)
        self._answers.append(kept)
        if kept is None:
            return None
        return json.dumps([name for name, group in self._groups.items() if group in kept])

    def groups_read(self) -> frozenset[FileGroupId]:
        """The file groups of the answers, all where there is none."""
        of_all = frozenset(self._groups.values())
        answers = self._answers or [None]
        return frozenset().union(*(of_all if kept is None else of_all & kept for kept in answers))

    class Java:
        """What py4j makes of it."""

        implements = ("java.util.function.Function",)


def _has_type(stored: pa.Schema, field: pa.Field) -> bool:
    return field.name in stored.names and stored.field(field.name).type == field.type
