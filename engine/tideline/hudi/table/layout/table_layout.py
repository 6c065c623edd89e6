"""`TableLayout`: what differs between table versions, as one value.

    layout.timeline     names and states of instants, codec of bodies
    layout.slices       which log file belongs to which slice
    layout.names        what the names of data files and markers say
    layout.archive      where instants are that left the active timeline
    layout.rollback     how what a failed write appended is taken back
    layout.properties   what the table's properties are called, and which mark a version
    layout.metadata_partitions   what is kept and read of its metadata table

A layout is one module next to this one; `known_layouts` finds the one of a table. Nothing else asks
a table for its version number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout import TimelineLayout

CompletionTimes = Callable[[InstantTime], InstantTime | None]
"""When the archived commit of a requested time completed; None where nothing says so."""


class Slicing(Protocol):
    """Which files of a file group make which slices."""

    def slices(
        self,
        group: FileGroupId,
        files: Iterable[BaseFile | LogFile],
        compaction: InstantTime | None,
    ) -> tuple[FileSlice, ...]:
        """The committed slices of a group, newest first.

        `compaction` is the pending one that names the group. The slice it begins has no base file
        yet, only what was appended since it was planned.
        """


SliceRule = Callable[[ActiveTimeline, CompletionTimes], Slicing]
"""Makes the slicing of one timeline; asks the second where a slice depends on a commit that left
it."""


@dataclass(frozen=True, slots=True)
class FileNames:
    """What names of data files say. `logs_name_slice`: the instant in a log file's name is the base
    instant of its slice, else the one that wrote it."""

    logs_name_slice: bool

    def slice_instant(self, file: BaseFile | LogFile) -> InstantTime | None:
        """The base instant of a file's slice, None where only the timeline knows."""
        if isinstance(file, BaseFile) or self.logs_name_slice:
            return file.instant
        return None


@dataclass(frozen=True, slots=True)
class ArchiveForm:
    """How archived instants are stored: `opens` reads them in a `folder`, relative to `.hoodie`."""

    opens: type[ArchivedTimeline]
    folder: str


class RollbackForm(Enum):
    """How rows in log files of a failed write are taken back."""

    COMMAND_BLOCKS = "a command in a further log file makes readers forget them"
    DELETES = "the log files are deleted, for no other write appended to them"


@dataclass(frozen=True, slots=True)
class PropertyRules:
    """What stands in `hoodie.properties`.

    `created` are properties of new tables and mark the version. `ordering` is the property that
    names the columns to order by. Where there are `merge_settings`, settings of merging stand under
    names of their own, and rows may fill each other up. Where `names_kinds`, new tables say key
    generator and merge mode by kind, else by class; where they `have_payload`, the payload class,
    and with the mode the merge strategy. `streamer_checkpoint` is the key in commits of Hudi's
    streamer.
    """

    created: Mapping[str, str] = field(default_factory=dict, hash=False)
    merge_settings: bool = False
    ordering: str = "hoodie.table.precombine.field"
    names_kinds: bool = False
    have_payload: bool = True
    streamer_checkpoint: str = "deltastreamer.checkpoint.key"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How tables of one version lie on disk."""

    table_version: int
    timeline: TimelineLayout
    slices: SliceRule
    names: FileNames
    archive: ArchiveForm
    rollback: RollbackForm
    properties: PropertyRules
    metadata_partitions: Collection[str] | None = ()
    """None where all are kept that are known here."""

    @property
    def keeps_metadata_table(self) -> bool:
        """Whether its metadata table is kept up to date, and read."""
        return self.metadata_partitions is None or len(self.metadata_partitions) > 0

    def keeps_partition(self, name: str) -> bool:
        """Whether a partition of its metadata table is kept, of those that are known here."""
        return self.metadata_partitions is None or name in self.metadata_partitions

    @property
    def is_written(self) -> bool:
        """Whether Tideline changes tables of this layout, or only reads them."""
        return self.timeline.is_written


def log_order(log: LogFile) -> tuple[InstantTime, int, tuple[int, ...]]:
    """Sorts the logs of a slice as they were written (Hudi: HoodieLogFile.LogFileComparator)."""
    token = tuple(int(part) for part in log.write_token.split("-")) if log.write_token else ()
    return log.instant, log.version, token


def newest_base_files(files: Iterable[BaseFile]) -> dict[InstantTime, BaseFile]:
    """The base file of every instant; of several, which attempts of one task left, the last."""
    bases: dict[InstantTime, BaseFile] = {}
    for file in files:
        if file.instant not in bases or bases[file.instant].name < file.name:
            bases[file.instant] = file
    return bases
