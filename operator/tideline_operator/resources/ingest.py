"""The ingest part of a LakeTable: what lands where, when it is ingested, and how."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from tideline.ingest.column_type import ColumnType
from tideline_operator.resources.field import CelRule, described
from tideline_operator.resources.metadata import NAME
from tideline_operator.resources.schedule import Cron, Duration
from tideline_operator.resources.sources.column import TYPE_PATTERN, SourceColumnSpec
from tideline_operator.resources.sources.source import Source, SourceFormat

ONE_SOURCE_SECRET = "the sources of one table must name the same Secret in credentials"
COLUMN_PATTERN = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
COLUMN_MEANING = "a column name; a dot leads into a struct"
COLUMN: Mapping[str, Any] = {
    "pattern": COLUMN_PATTERN,
    "pattern_meaning": COLUMN_MEANING,
    "length_max": 255,
}
"""What resources take as a column: constraints for `described`."""
_INGEST_NAME = {**NAME, "length_max": 40}
FILES_PER_COMMIT_MAX = 5000
BAD_ROWS_MAX = 10_000
_NO_SQL = "SQL is for files: other sources are read without Spark"
_NO_INSERTS = "changes of a table update and delete rows: the operation is upsert"


class IngestOperation(Enum):
    """How a batch is written. No overwrites: batch by batch they would undo each other."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"

    @property
    def inserts(self) -> bool:
        """Whether ingesting a file twice duplicates its rows."""
        return self in (IngestOperation.INSERT, IngestOperation.BULK_INSERT)


class BadFilePolicy(Enum):
    """What happens to a file that cannot be ingested."""

    QUARANTINE = "Quarantine"
    FAIL = "Fail"


class BadRowPolicy(Enum):
    """What happens to a row that cannot be ingested."""

    FAIL = "Fail"
    QUARANTINE = "Quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec(SourceColumnSpec):
    """One column of a declared schema."""

    name: str = described(
        "Column name.", pattern=r"[A-Za-z_][A-Za-z0-9_]*", pattern_meaning="letters, digits and _",
        length_max=255,
    )  # fmt: skip
    type: ColumnType = described(
        "Spark's type name: boolean, int, long, float, double, string, binary, date, timestamp, "
        "timestamp_ntz, decimal(p,s), array<T>, map<string,T>, struct<a:T,...>.",
        pattern=TYPE_PATTERN,
        length_max=4096,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When the landing prefix is looked at: exactly one of the three."""

    every: Duration | None = described("Interval, such as 30s.", default=None, length_max=16)
    cron: Cron | None = described("Five-field cron expression, UTC.", default=None, length_max=128)
    once: bool = described(
        "Ingest the files that are there, then stop; spec.rerun.<ingest name> starts it again.",
        default=False,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "(has(self.every) ? 1 : 0) + (has(self.cron) ? 1 : 0) + (self.once ? 1 : 0) == 1",
            "give exactly one of every, cron and once",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Exactly one of every, cron and once is set."""
        chosen = [self.every is not None, self.cron is not None, self.once]
        if sum(chosen) != 1:
            yield "", "give exactly one of every, cron and once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """One landing prefix and what becomes of its files."""

    name: str = described(
        "Name of the ingest. Its checkpoint is kept under this name: a new name starts over, "
        "which is refused where it would insert files again.",
        **_INGEST_NAME,
    )
    renamed_from: str | None = described(
        "The ingest's former name: it continues from the checkpoint kept under that name.",
        default=None,
        **_INGEST_NAME,
    )
    source: Source = described("Where rows come from, and how they are read.")
    operation: IngestOperation = described(
        "How a batch is written.", default=IngestOperation.UPSERT
    )
    transform: str | None = described(
        "Spark SQL over the view `source`, run before writing. Carry the column "
        "_tideline_sequence through it so that of two rows with equal keys and equal ordering "
        "values the one that arrived later wins.",
        default=None,
        length_max=16384,
    )
    delete_when: str | None = described(
        "Spark SQL condition over the transformed rows: rows for which it holds delete their key, "
        "such as `status = 'cancelled'`.",
        default=None,
        length_max=4096,
    )
    trigger: Trigger = described(
        "When the landing prefix is looked at.",
        default_factory=lambda: Trigger(every=Duration(30_000)),
    )
    on_bad_file: BadFilePolicy = described(
        "What happens to a file that cannot be ingested: unreadable, of other columns or types, or "
        "with rows that onBadRow does not set aside. Quarantine leaves it where it is, notes the "
        "reason in <landing>/_quarantine/ and continues; deleting the note tries the file again. "
        "Fail stops this ingest, naming the file.",
        default=BadFilePolicy.QUARANTINE,
    )
    on_bad_row: BadRowPolicy = described(
        "What happens to a row that cannot be ingested: it does not fit its columns, or has no "
        "record key, ordering value or partition. Fail makes its file a bad one. Quarantine keeps "
        "the row, with its place and the reason, in <landing>/_quarantine/ and ingests the other "
        "rows.",
        default=BadRowPolicy.FAIL,
    )
    max_bad_rows: int = described(
        "Largest number of rows of one file that onBadRow: Quarantine sets aside; a file with more "
        "is a bad one.",
        default=100,
        minimum=1,
        maximum=BAD_ROWS_MAX,
    )
    max_files_per_commit: int = described(
        "Largest number of files in one commit.",
        default=1000,
        minimum=1,
        maximum=FILES_PER_COMMIT_MAX,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.deleteWhen) || self.operation == 'upsert'",
            "only the operation upsert can delete some of its rows",
            field="deleteWhen",
        ),
        CelRule(
            "!(self.source.format in ['kafka', 'postgres']) || "
            "(!has(self.transform) && !has(self.deleteWhen))",
            _NO_SQL,
            field="transform",
        ),
        CelRule(
            "self.source.format != 'postgres' || self.operation == 'upsert'",
            _NO_INSERTS,
            field="operation",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """A delete batch deletes all its keys already."""
        if self.delete_when is not None and self.operation is not IngestOperation.UPSERT:
            yield "deleteWhen", "only the operation upsert can delete some of its rows"
        is_postgres = self.source.format is SourceFormat.POSTGRES
        if is_postgres and self.operation is not IngestOperation.UPSERT:
            yield "operation", _NO_INSERTS
        if not self.source.format.is_of_files:
            for name, given in (("transform", self.transform), ("deleteWhen", self.delete_when)):
                if given is not None:
                    yield name, _NO_SQL


def source_secrets(ingests: Iterable[Ingest]) -> tuple[str, ...]:
    """The Secrets that the sources of these ingests name, each once."""
    given = (ingest.source.credentials for ingest in ingests)
    return tuple(dict.fromkeys(found.secret_name for found in given if found is not None))


def source_secret_keys(ingests: Iterable[Ingest]) -> tuple[str, ...]:
    """What these sources take of it, each once."""
    return tuple(dict.fromkeys(key for ingest in ingests for key in ingest.source.secret_keys))
