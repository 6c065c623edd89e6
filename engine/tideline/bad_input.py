"""What of a batch cannot be taken in: parts of a source whole, or rows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row; `record` is its text, or its values as JSON. `digest` knows it again by content. The
    number `row` counts `unit`s."""

    row: int
    column: str
    reason: str
    record: str
    digest: int
    line: int | None = None
    unit: str = "row"

    def to_json_object(self) -> dict[str, Any]:
        content = {"row": self.row, "line": self.line, "column": self.column or None}
        return {**content, "reason": self.reason, "record": self.record}

    def __str__(self) -> str:
        line = f" (line {self.line:,})" if self.line is not None else ""
        column = f", column {self.column}" if self.column else ""
        return f"{self.unit} {self.row:,}{line}{column}: {self.reason}"


@dataclass(frozen=True, slots=True)
class BadInput:
    """Bad files, or other parts of a source, with reasons; rows to set aside, by the name of their
    part; parts that wait for the next commit.

    `reading` is how the rows were read when they were found, for those that read them again.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, tuple[BadRow, ...]] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    reading: Any = None

    def limited(self, rows_max: int | None) -> BadInput:
        """The same, where parts with more bad rows than may be set aside are bad ones."""
        files, kept = dict(self.files), {}
        for name, rows in self.rows.items():
            if rows_max is not None and len(rows) <= rows_max:
                kept[name] = rows
            elif rows:
                files[name] = str(rows[0])
        return replace(self, files=files, rows=kept)

    @property
    def digests(self) -> frozenset[int]:
        """What the rows to set aside are recognised by."""
        return frozenset(row.digest for rows in self.rows.values() for row in rows)
