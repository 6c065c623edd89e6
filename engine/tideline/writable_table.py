"""Writing a table's rows by the words of other libraries.

Each is `write` with an operation already chosen, which tables of both formats have:
docs/coming-from.md has them side by side. They raise what `write` raises.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from tideline.commit_report import CommitReport
from tideline.readable_table import ReadableTable

Options = Mapping[str, str] | None
"""Names and texts: settings of a write, metadata of a commit."""
StoreOptions = Mapping[str, str | bool] | None
"""Options of a store."""


class WritableTable(ReadableTable):
    """What can be done with any table that is written here."""

    @abstractmethod
    def write(
        self, rows: Any, operation: Any = None, *, options: Options = None
    ) -> CommitReport: ...

    def append(self, rows: Any, *, options: Options = None) -> CommitReport:
        """Insert rows. A key that is there already comes twice, unless the table refuses that:
        `upsert` is the usual word."""
        return self.write(rows, "insert", options=options)

    def upsert(self, rows: Any, *, options: Options = None) -> CommitReport:
        """Update the rows whose key is there, insert the others."""
        return self.write(rows, "upsert", options=options)

    def merge(self, rows: Any, *, options: Options = None) -> CommitReport:
        """`upsert`: by the table's key, and where it has ordering columns the latest row counts. It
        has no clauses: docs/coming-from.md says what they come down to."""
        return self.upsert(rows, options=options)

    def overwrite(self, rows: Any, *, options: Options = None) -> CommitReport:
        """Replace all rows of the table by these."""
        return self.write(rows, "insert_overwrite_table", options=options)

    def insert_overwrite(self, rows: Any, *, options: Options = None) -> CommitReport:
        """Replace the partitions that these rows are in."""
        return self.write(rows, "insert_overwrite", options=options)
