"""A table at one moment, as a comparison sees it: its rows, and what its commits say of ingests.

Behind `TableState` is what differs between formats of tables, with a Hudi and an Iceberg side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from tideline.ingest.execute.ingest_table import IngestTable
from tideline.ingest.operation.operation import ICEBERG, Operation
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.verify.hudi_state import HudiState
from tideline.ingest.verify.iceberg_state import IcebergState
from tideline.ingest.verify.keyed_rows import KeyedRows


class TableState(Protocol):
    """See the module's text. Names of commits are texts in the order of the commits."""

    @property
    def uri(self) -> str:
        """For messages."""

    @property
    def newest(self) -> str:
        """Its newest commit, for people; empty without one."""

    @property
    def checkpoints(self) -> Mapping[str, Checkpoint]:
        """Those of the ingests that are compared, by their names of today; those that have taken
        nothing in are left out."""

    @property
    def table(self) -> IngestTable:
        """The table, as its ingests see it."""

    @property
    def names_kept_max(self) -> int:
        """A commit that names so many parts may have taken in more."""

    def keyed(self, operation: Operation) -> KeyedRows:
        """How rows of an ingest become rows of the table. Raises ConfigError for those that do not
        follow from records alone."""

    def rows(self, keyed: KeyedRows) -> Iterator[pa.Table]:
        """All rows, with their keys, partitions and commits."""

    def commits(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """The commits that are listed, the newest first, with what they say besides."""

    def archived_commits(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Those before, as far as they are kept, in no certain order."""


def read_state(operations: Sequence[Operation]) -> TableState:
    """The table of some ingests as it is now. Raises ConfigError where there is none, ConflictError
    where it changes too fast to be looked at."""
    is_iceberg = operations[0].table.format == ICEBERG
    return IcebergState.of(operations) if is_iceberg else HudiState.of(operations)
