"""What an engine does for a service that moves rows; plans and transactions are the same for all.

An engine belongs to one table. `tideline.in_process` has one that needs no Spark, for work that is
small enough, and `tideline.spark` the one for all other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tideline.errors import ConflictError
from tideline.hudi.file_group.cluster_work import RewrittenGroup
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.row_layout import RowLayout
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig


@dataclass(frozen=True, slots=True)
class ServiceWork:
    """One run of a service, as an engine needs to know it.

    `schema_json` is the table's schema, without meta columns. `timeline` says which log blocks
    are committed. The engine gives up with ConflictError after `seconds_max`, when given.
    """

    instant: InstantTime
    schema_json: str
    timeline: ActiveTimeline
    config: WriteConfig
    seconds_max: float | None = None

    def took_too_long(self) -> ConflictError:
        """What an engine raises after `seconds_max`."""
        return ConflictError(
            f"the service did not finish within {self.seconds_max:g} s; its plan is kept for "
            "another run",
            instant=self.instant,
        )


class RowArrangement(Protocol):
    """How rows are rearranged: which groups, in which order, in which file size.

    Without `sort_columns` rows stay in the order in which they are read; `target_file_bytes` None
    is the size that the table's settings say.
    """

    @property
    def groups(self) -> Sequence[RewrittenGroup]: ...

    @property
    def sort_columns(self) -> tuple[str, ...]: ...

    @property
    def layout(self) -> RowLayout: ...

    @property
    def target_file_bytes(self) -> int | None: ...


class ServiceEngine(Protocol):
    """Reads file slices and writes files, a marker before each; one stat per file written."""

    def compact(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        """Write a base file for every slice: its rows, log files merged in."""

    def compact_logs(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        """Append one log file for every slice: the blocks of its log files, merged."""

    def cluster(self, work: ServiceWork, arrangement: RowArrangement) -> Sequence[WriteStat]:
        """Write the rows of every group to new file groups, laid out as the arrangement says."""
