"""The table of an ingest, as all that is the same for Hudi and Iceberg sees it.

What is read, set aside, transformed and settled is an ingest's, whatever the format of its table.
Behind `IngestTable` is what differs: where checkpoints are kept, how columns are added, and how
rows and the new checkpoint become visible by one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tideline.commit_report import CommitReport
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.source import Shape, Sweep

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FILES_KEY = "tideline.ingest.files"
"""What a commit calls the parts that it took in; of many it names some."""


@dataclass(frozen=True, slots=True)
class TakenRange:
    """What a commit says besides its rows: the range that the operation took in, the checkpoint
    behind it, and the checkpoints of all ingests that were there before."""

    operation_id: str
    work: IngestRange
    names: tuple[str, ...]
    checkpoint: Checkpoint
    before: Mapping[str, Checkpoint]


class IngestTable(Protocol):
    """A table that an operation names; it may not be there yet."""

    @property
    def uri(self) -> str:
        """For messages."""

    @property
    def exists(self) -> bool: ...

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns that identify a row."""

    @property
    def ordering(self) -> tuple[str, ...]:
        """The columns that decide between rows of one key."""

    def columns(self) -> pa.Schema | None:
        """Those of the table; None where there is none, or no write has decided them."""

    def checkpoints(self, work: IngestRange) -> dict[str, Checkpoint]:
        """The checkpoint of an ingest, also under its former name, and those of others that are
        carried on. Raises CorruptTableError."""

    def other_ingests(self, work: IngestRange) -> list[str]:
        """Ingests that have rows in the table besides this one, whose former name is its own."""

    def shape(self, shape: Shape) -> Shape:
        """The shape of rows, with what the reading of a source has to know of this table."""

    def on_spark(self, shape: Shape, *, deletes: bool) -> Shape:
        """The same where Spark reads the rows, and looks for those that are at fault."""

    def why_spark(self, work: IngestRange, size_bytes: int = 0) -> str | None:
        """Why rows are written by Spark; None where they are not, or there is no table yet. Raises
        ConfigError for settings that cannot be."""

    def created(self) -> IngestTable:
        """The table, made as it is declared where there is none; without declared columns the first
        write may make it."""

    def upgraded(self) -> int | None:
        """The version of a table that is there, where a later one is declared and it has become
        one of that; None where nothing was to be done. Raises ConflictError."""

    def found(self) -> IngestTable:
        """The table, if it has been made since."""

    def stand_in(self) -> IngestTable:
        """What a rehearsal looks at in its place: nothing is created."""

    def count_keys(self, rows: DataFrame) -> tuple[int, int]:
        """How many rows there are, and how many record keys."""

    def try_rows(self, rows: DataFrame, work: IngestRange) -> None:
        """All that a write does with rows short of writing. Raises InvalidDataError."""

    def write(self, rows: Any, taken: TakenRange) -> CommitReport:
        """Write rows of Arrow, or a DataFrame, with the checkpoint: both or nothing is visible.

        Raises ConflictError where another driver of the ingest has committed since the plan, and
        as the facades of tables do.
        """

    def write_all(self, rows: Any, taken: TakenRange) -> CommitReport:
        """The same in place of all rows that the table has. Raises ConflictError where another
        ingest has committed since this one began."""

    def begin_again(self, rows: pa.Table, taken: TakenRange) -> CommitReport:
        """Commit without rows that all of them are copied again, and a sweep follows. Raises as
        `write`."""

    def sweep(
        self,
        wanted: Sweep,
        bytes_max: int,
        taken: Callable[[bool], TakenRange],
        progress: Callable[[str], None],
    ) -> CommitReport:
        """Take out rows that the copy did not write, with what is `taken` where these are all, or
        not. Raises as `write`, and ConfigError where only Spark finds them."""
