"""What comparing a table with its source found: counts, and the first rows that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from tideline.wording import counted


class Kind(Enum):
    """How a row differs."""

    MISSING = "missing"
    """The source has it, the table does not."""
    EXTRA = "extra"
    """The table has it, the source does not."""
    DIFFERENT = "different"
    """Both have it, with other values."""


@dataclass(frozen=True, slots=True)
class RowDifference:
    """One row, by its record key and partition path; `columns` are those that differ, with the
    value of the source and that of the table."""

    kind: Kind
    key: str
    partition: str = ""
    columns: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def to_json_object(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind.value, "key": self.key}
        if self.partition:
            found["partition"] = self.partition
        if self.columns:
            found["columns"] = {
                name: {"source": source, "table": table}
                for name, (source, table) in self.columns.items()
            }
        return found


@dataclass(frozen=True, slots=True)
class Differences:
    """How many rows are alike or differ, and the first ones that do.

    Of `unknown` rows nothing can be said: what the source has no more may have made them.
    `undecided` ones depend on how records were divided into commits, or were changed since in a
    source that has no rows of before.
    """

    equal: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    unknown: int = 0
    undecided: int = 0
    first: tuple[RowDifference, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether no row is known to differ."""
        return not (self.missing or self.extra or self.different)

    def plus(self, other: Differences, rows_max: int) -> Differences:
        """Both together, with at most so many rows."""
        return Differences(
            self.equal + other.equal,
            self.missing + other.missing,
            self.extra + other.extra,
            self.different + other.different,
            self.unknown + other.unknown,
            self.undecided + other.undecided,
            (*self.first, *other.first)[:rows_max],
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """A table compared with the source of one ingest at `position`, which `instant` had committed.

    `records` were read again; `bad` ones among them were not for the table. `gone` says what the
    source has no more.
    """

    table: str
    ingest: str
    source: str
    position: str
    instant: str
    records: int
    bad: int
    rows: int
    gone: tuple[str, ...]
    found: Differences

    def with_rows(self, rows_max: int | None) -> Verification:
        """The same with fewer rows."""
        return replace(self, found=replace(self.found, first=self.found.first[:rows_max]))

    def to_json_object(self) -> dict[str, Any]:
        found = self.found
        return {
            "table": self.table,
            "ingest": self.ingest,
            "source": self.source,
            "position": self.position,
            "instant": self.instant,
            "is_equal": found.is_equal,
            "records": self.records,
            "bad_records": self.bad,
            "table_rows": self.rows,
            "equal": found.equal,
            "missing": found.missing,
            "extra": found.extra,
            "different": found.different,
            "unknown": found.unknown,
            "undecided": found.undecided,
            "gone": list(self.gone),
            "rows": [row.to_json_object() for row in found.first],
        }

    def lines(self) -> Iterator[str]:
        """For people; the rows are not among them."""
        found = self.found
        bad = f", {self.bad:,} of them bad" if self.bad else ""
        yield (
            f"{self.ingest}: {counted(self.records, 'record')} of {self.source}{bad}, "
            f"{counted(self.rows, 'row')} of {self.table}, at {self.position} ({self.instant})"
        )
        for gone in self.gone:
            yield f"the source has no more: {gone}"
        if found.unknown:
            yield (
                f"{counted(found.unknown, 'row')} of the table cannot be compared: what is gone may"
                " have made them"
            )
        if found.undecided:
            yield (
                f"{counted(found.undecided, 'key')} cannot be compared: the order of records does "
                "not decide, the source has changed them since, or their rows are bad"
            )
        if found.is_equal:
            yield f"{counted(found.equal, 'row')} compared: all are equal"
        else:
            yield (
                f"{found.equal:,} equal, {found.missing:,} missing in the table, {found.extra:,} "
                f"extra in the table, {found.different:,} with other values"
            )
