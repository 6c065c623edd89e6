"""What comparing a table with its source found: counts, and the first rows that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
class Compared:
    """The source of one ingest at `position`: `records` were read again, of them `bad` ones were
    not for the table. `gone` says what the source has no more."""

    ingest: str
    source: str
    position: str
    records: int
    bad: int
    gone: tuple[str, ...]

    def to_json_object(self) -> dict[str, Any]:
        return {
            "ingest": self.ingest,
            "source": self.source,
            "position": self.position,
            "records": self.records,
            "bad_records": self.bad,
            "gone": list(self.gone),
        }

    def __str__(self) -> str:
        bad = f", {self.bad:,} of them bad" if self.bad else ""
        return (
            f"{self.ingest}: {counted(self.records, 'record')} of {self.source}{bad}, at "
            f"{self.position}"
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """A table compared with the sources of its ingests; `instant` is its newest commit."""

    table: str
    ingests: tuple[Compared, ...]
    instant: str
    rows: int
    found: Differences

    @property
    def records(self) -> int:
        return sum(item.records for item in self.ingests)

    @property
    def bad(self) -> int:
        return sum(item.bad for item in self.ingests)

    @property
    def gone(self) -> tuple[str, ...]:
        return tuple(gone for item in self.ingests for gone in item.gone)

    def to_json_object(self) -> dict[str, Any]:
        found = self.found
        several = len(self.ingests) > 1
        return {
            "table": self.table,
            "ingest": ", ".join(item.ingest for item in self.ingests),
            "source": ", ".join(item.source for item in self.ingests),
            "position": ", ".join(item.position for item in self.ingests),
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
            **({"ingests": [item.to_json_object() for item in self.ingests]} if several else {}),
        }

    def lines(self) -> Iterator[str]:
        """For people; the rows are not among them."""
        found = self.found
        for item in self.ingests:
            yield str(item)
            for gone in item.gone:
                yield f"the source has no more: {gone}"
        yield f"{counted(self.rows, 'row')} of {self.table} ({self.instant})"
        if found.unknown:
            yield (
                f"{counted(found.unknown, 'row')} cannot be compared: what is gone may have made "
                "or deleted them"
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
