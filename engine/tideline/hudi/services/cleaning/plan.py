"""Which files a clean deletes: a pure function of the listings of the partitions it looks at.

Partition by partition, so that memory holds one listing and what is to be deleted:

1. By commits or hours: all slices of file groups replaced before the earliest commit to retain;
   of each living group every slice older than it, except the newest one below it (the version
   that commit saw) and the newest of all.
2. By file versions: all slices of replaced groups; of each living group all but the newest ones.
3. Kept in any case: a slice with a file that a savepoint names, as a whole, and what is read now as
   of that instant (other files where a clustering was pending then); slices that a pending
   compaction, log compaction or clustering reads, and newer ones; under file versions what a
   pinned reader sees.
4. Logs of changes (CDC) that are left of an instant without a base or log file: by commits or
   hours what is older than the earliest commit to retain; by file versions what is older than the
   kept slices of its group, or, of a group without any, than the timeline.
5. A partition where nothing remains is itself deleted, in a partitioned table.

Source: Hudi's CleanPlanner. Hudi does not protect the input of a clustering, nor a partition that
still holds files of a savepoint. A log of changes that is alone counts as a file slice there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import parser
from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.cleaning.retention import Retention
from tideline.hudi.services.last_clean import SAVEPOINTED
from tideline.hudi.table.file_group import (
    FileGroup,
    FileGroupId,
    FileSlice,
    LogFile,
    join_path,
)
from tideline.hudi.table.file_system_view import FileSystemView, Listing, parse_data_file
from tideline.hudi.table.layout.table_layout import CompletionTimes, SliceRule
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.benefit import Benefit
from tideline.services.explanation import Explanation
from tideline.wording import counted

PLAN_VERSION = 2

PartitionListing = tuple[str, Sequence[tuple[str, int]]]
"""A partition and the names and sizes in bytes of its files."""


@dataclass(frozen=True, slots=True)
class ObsoleteFile:
    """A file to delete. `size_bytes` is None in a plan read back: plans do not say it."""

    path: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What planning has to know of the table apart from its files.

    `replaced` maps file groups to the replacecommit that replaced them, as far back as the clean
    looks; `compacting` to the pending compaction; `needed` to the base instant of the oldest slice
    that a pending plan reads (None: unknown, so all). `savepointed` are file names by partition.
    `slices` is the rule of the table's layout, `archived` what it may ask.
    """

    timeline: ActiveTimeline
    is_partitioned: bool
    slices: SliceRule
    archived: CompletionTimes = lambda _: None
    replaced: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)
    compacting: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)
    needed: Mapping[FileGroupId, InstantTime | None] = field(default_factory=dict)
    savepointed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def view(self, listing: Listing) -> FileSystemView:
        """The files of a listing as the table's layout makes slices of them."""
        return FileSystemView.build(
            listing,
            self.timeline,
            replaced=self.replaced,
            pending_compaction=self.compacting,
            slices=self.slices,
            archived=self.archived,
        )


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """What a clean deletes, by partition, and what it retains."""

    policy: str
    earliest: Instant | None
    last_completed: InstantTime | None
    files: Mapping[str, tuple[ObsoleteFile, ...]]
    partitions_to_delete: tuple[str, ...] = ()
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    partitions_examined: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.files and not self.partitions_to_delete

    def explain(self) -> Explanation:
        """Why, what, how much, and what that saves."""
        obsolete = [file for files in self.files.values() for file in files]
        kept = f"from {self.earliest.time} on" if self.earliest else "the newest of each file group"
        count = len(obsolete)
        size_bytes = sum(file.size_bytes or 0 for file in obsolete)
        return Explanation(
            f"{counted(count, 'file')} of {counted(len(self.files), 'partition')} older than what "
            f"{self.policy} keeps ({kept})",
            paths=tuple(file.path for file in obsolete),
            bytes_deleted=size_bytes,
            benefit=Benefit(objects_listed=count, bytes_stored=size_bytes),
            details={
                "policy": self.policy,
                "earliest_retained": str(self.earliest.time) if self.earliest else "",
                "partitions_examined": str(self.partitions_examined),
                "partitions_deleted": ",".join(self.partitions_to_delete),
            },
        )

    def to_avro(self, base_uri: str) -> dict[str, Any]:
        """The HoodieCleanerPlan record; `base_uri` as Hudi spells the table's address."""
        return {
            "earliestInstantToRetain": None
            if self.earliest is None
            else {
                "timestamp": str(self.earliest.time),
                "action": self.earliest.action.value,
                "state": self.earliest.state.value,
            },
            "lastCompletedCommitTimestamp": str(self.last_completed or ""),
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": PLAN_VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": f"{base_uri}/{file.path}", "isBootstrapBaseFile": False}
                    for file in files
                ]
                for partition, files in self.files.items()
            },
            "partitionsToBeDeleted": list(self.partitions_to_delete),
            "extraMetadata": dict(self.extra_metadata),
        }

    @classmethod
    @parser("a clean plan lacks a field, or one is wrong")
    def from_avro(cls, record: Mapping[str, Any]) -> CleaningPlan:
        """Read a plan of ours or of Hudi's, with any address: only names and partitions count.

        Base files of a bootstrap source lie outside the table and are left alone.
        """
        earliest = record.get("earliestInstantToRetain")
        last = record.get("lastCompletedCommitTimestamp")
        return cls(
            policy=record["policy"],
            earliest=None if earliest is None else _instant(earliest),
            last_completed=InstantTime.parse(last) if last else None,
            files=dict(_files_of(record)),
            partitions_to_delete=tuple(record.get("partitionsToBeDeleted") or ()),
            extra_metadata=record.get("extraMetadata") or {},
        )


def plan_cleaning(
    listings: Iterable[PartitionListing],
    facts: TableFacts,
    retention: Retention,
    config: CleaningConfig,
) -> CleaningPlan:
    """What to delete in these partitions; consumes the listings one by one."""
    files: dict[str, tuple[ObsoleteFile, ...]] = {}
    emptied: list[str] = []
    examined = 0
    # A pending write may be about to put files where none are.
    may_empty = facts.is_partitioned and not len(facts.timeline.writes().pending())
    for partition, listing in listings:
        examined += 1
        view = facts.view({partition: listing})
        slices = tuple(_obsolete_slices(view, partition, facts, retention, config))
        alone = _obsolete_changes(view, partition, listing, slices, facts, retention, config)
        obsolete = tuple(
            ObsoleteFile(file.path, file.size_bytes)
            for file_slice in (*slices, *alone)
            for file in file_slice.files
        )
        if obsolete:
            files[partition] = obsolete
        if may_empty and _is_emptied(view, partition, listing, len(obsolete), retention):
            emptied.append(partition)
    savepoints = sorted(map(str, facts.timeline.savepointed_times()))
    return CleaningPlan(
        policy=str(config.policy),
        earliest=retention.earliest,
        last_completed=retention.last_completed,
        files=files,
        partitions_to_delete=tuple(emptied),
        extra_metadata={SAVEPOINTED: ",".join(savepoints)} if savepoints else {},
        partitions_examined=examined,
    )


def _obsolete_slices(
    view: FileSystemView,
    partition: str,
    facts: TableFacts,
    retention: Retention,
    config: CleaningConfig,
) -> Iterator[FileSlice]:
    protected = set(facts.savepointed.get(partition, ()))
    for time in (*retention.pinned, *facts.timeline.savepointed_times()):
        for file_slice in view.latest_slices(partition, as_of=time):
            protected.update(file.name for file in file_slice.files)
    for group in view.all_file_groups(partition):
        replaced_at = view.replaced.get(group.id)
        for file_slice in _outdated(group, replaced_at, facts, retention, config):
            if protected.isdisjoint(file.name for file in file_slice.files):
                yield file_slice


def _obsolete_changes(
    view: FileSystemView,
    partition: str,
    listing: Sequence[tuple[str, int]],
    obsolete: Iterable[FileSlice],
    facts: TableFacts,
    retention: Retention,
    config: CleaningConfig,
) -> Iterator[FileSlice]:
    """What is left of slices whose base and log files are gone: unneeded logs of changes.

    An instant that did not commit is not among them: it is under way, or rolled back.
    """
    going = set(obsolete)
    oldest: dict[FileGroupId, InstantTime] = {}
    whole: set[str] = set()
    for group in view.all_file_groups(partition):
        whole.update(file.name for file_slice in group.slices for file in file_slice.files)
        kept = [file_slice.base_instant for file_slice in group.slices if file_slice not in going]
        if kept:
            oldest[group.id] = min(kept)
    by_versions = config.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS
    if not by_versions and not _has_enough(retention, config):
        return
    limit = None if by_versions or retention.earliest is None else retention.earliest.time
    protected = facts.savepointed.get(partition, frozenset())
    for name, size_bytes in listing:
        file = parse_data_file(partition, name, size_bytes) if name.endswith(".cdc") else None
        if not isinstance(file, LogFile) or name in whole or name in protected:
            continue
        alone = FileSlice(file.group, file.instant, cdc_files=(file,))
        before = oldest.get(file.group, facts.timeline.start) if by_versions else limit
        is_old = before is not None and file.instant < before
        if (
            is_old
            and facts.timeline.is_committed(file.instant)
            and not is_needed(alone, facts.needed)
        ):
            yield alone


def _outdated(
    group: FileGroup,
    replaced_at: InstantTime | None,
    facts: TableFacts,
    retention: Retention,
    config: CleaningConfig,
) -> Iterator[FileSlice]:
    """The slices of a group that the policy and pending plans do not need."""
    free = [file_slice for file_slice in group.slices if not is_needed(file_slice, facts.needed)]
    if config.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        if replaced_at is None:
            kept = config.file_versions_retained - (group.id in facts.compacting)
            free = free[max(kept, 0) :]
        yield from free
        return
    earliest = retention.earliest
    if earliest is None or not _has_enough(retention, config):
        return
    if replaced_at is not None:
        yield from free if replaced_at < earliest.time else ()
        return
    below = [file_slice for file_slice in group.slices if file_slice.base_instant < earliest.time]
    yield from (file_slice for file_slice in below[1:] if not is_needed(file_slice, facts.needed))


def _has_enough(retention: Retention, config: CleaningConfig) -> bool:
    by_hours = config.policy is CleaningPolicy.KEEP_LATEST_BY_HOURS
    return retention.completed > (0 if by_hours else config.commits_retained)


def is_needed(file_slice: FileSlice, needed: Mapping[FileGroupId, InstantTime | None]) -> bool:
    """Whether a pending plan reads the slice; `needed` as in TableFacts."""
    if file_slice.group not in needed:
        return False
    since = needed[file_slice.group]
    return since is None or file_slice.base_instant >= since


def _is_emptied(
    view: FileSystemView,
    partition: str,
    listing: Sequence[tuple[str, int]],
    obsolete: int,
    retention: Retention,
) -> bool:
    """Whether nothing of the table remains there; files of pending writes count as something."""
    if view.file_groups(partition):
        return False
    earliest = retention.earliest
    if earliest is not None and any(
        group.partition == partition and time >= earliest.time
        for group, time in view.replaced.items()
    ):
        return False
    names = (name for name, _ in listing)
    remaining = sum(1 for name in names if parse_data_file(partition, name, 0) is not None)
    return remaining == obsolete


def _files_of(record: Mapping[str, Any]) -> Iterator[tuple[str, tuple[ObsoleteFile, ...]]]:
    """By partition, from the current field or from the one of plans of version 1 (bare names)."""
    found: dict[str, list[str]] = {}
    for partition, items in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        found[partition] = [
            item["filePath"]
            for item in items
            if item.get("filePath") and not item.get("isBootstrapBaseFile")
        ]
    for partition, paths in (record.get("filesToBeDeletedPerPartition") or {}).items():
        found.setdefault(partition, []).extend(paths)
    for partition, paths in found.items():
        names = [path.rpartition("/")[2] for path in paths]
        yield partition, tuple(ObsoleteFile(join_path(partition, name)) for name in names)


def _instant(record: Mapping[str, Any]) -> Instant:
    return Instant(
        InstantTime.parse(record["timestamp"]), Action(record["action"]), State(record["state"])
    )
