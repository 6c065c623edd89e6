"""What a rollback removes: a pure function of an instant and of what its writer left.

1. Nothing but a requested instant: no data was written, the plan is empty.
2. Markers (one per data file, created before the file). CREATE and MERGE name files to delete; one
   that names the file of another instant is none of this writer's making, and refused. APPEND
   stands for a file slice that got log blocks.
3. No markers but an inflight instant: another engine may have written without them. Hudi deletes
   nothing then, and the files become phantom rows once the rollback is archived; so the plan is
   made from a listing instead: every file named by the instant, and the slices that its metadata
   says it appended to. A completed instant, which only a restore undoes, is planned like this too.
4. Log files of a slice that the instant itself began are deleted. All others stay, and the slice
   gets a command block that makes readers skip the instant's blocks; one too many does no harm.
5. Where log files are named after the instant that wrote them, they are deleted like base files:
   what markers, or names in a listing, say is everything, and metadata is not asked.

Source: Hudi's MarkerBasedRollbackStrategy and ListingBasedRollbackStrategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import parser
from tideline.errors import CorruptTableError
from tideline.hudi.table.file_group import BaseFile, FileGroupId, LogFile, join_path, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.table.markers import Marker, MarkerKind
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time

PLAN_VERSION = 1
UNKNOWN_SIZE = -1
"""What Hudi says of a log file where it is unknown how much is to be undone."""

Slice = tuple[FileGroupId, InstantTime]
"""A file group, and the instant in the names of the log files meant."""

_MAY_FAIL = frozenset(
    {
        Action.COMMIT,
        Action.DELTACOMMIT,
        Action.REPLACECOMMIT,
        Action.CLUSTERING,
        Action.LOGCOMPACTION,
    }
)


@dataclass(frozen=True, slots=True)
class LogRollback:
    """A file slice that gets a command block.

    `base_instant` is the instant in its log files' names. `log_files` are those the failed instant
    wrote, as far as is known, with their sizes in bytes: path relative to the table -> size.
    """

    group: FileGroupId
    base_instant: InstantTime
    log_files: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What undoing one instant takes: files to delete, by partition, and command blocks.

    Paths are relative to the table.
    """

    instant: InstantTime
    action: Action
    paths: Mapping[str, tuple[str, ...]]
    log_rollbacks: tuple[LogRollback, ...] = ()

    @property
    def deleted_paths(self) -> tuple[str, ...]:
        """The files to delete, of all partitions."""
        return tuple(path for paths in self.paths.values() for path in paths)

    def to_avro(self, base_uri: str) -> dict[str, Any]:
        """The HoodieRollbackPlan record; Hudi wants absolute paths."""
        deletions = [
            _request(partition, deleted=[f"{base_uri}/{path}"])
            for partition, paths in sorted(self.paths.items())
            for path in paths
        ]
        blocks = [
            _request(
                item.group.partition,
                file_id=item.group.file_id,
                base_instant=str(item.base_instant),
                log_blocks={f"{base_uri}/{path}": size for path, size in item.log_files.items()},
            )
            for item in self.log_rollbacks
        ]
        return {
            "instantToRollback": {
                "commitTime": str(self.instant),
                "action": self.action.value,
            },
            "RollbackRequests": deletions + blocks,
            "version": PLAN_VERSION,
        }

    @classmethod
    @parser("a rollback plan lacks a field, or one is wrong")
    def from_avro(cls, record: Mapping[str, Any], *, path: str) -> RollbackPlan:
        """Read a plan of ours or of Hudi's.

        Raises CorruptTableError naming `path` for log blocks of a slice that the plan does not
        name.
        """
        target = record["instantToRollback"]
        instant = InstantTime.parse(target["commitTime"])
        paths: dict[str, tuple[str, ...]] = {}
        log_rollbacks = []
        for request in record.get("RollbackRequests") or ():
            partition = request.get("partitionPath") or ""
            names = _names(request.get("filesToBeDeleted") or ())
            found = tuple(join_path(partition, name) for name in names)
            blocks = request.get("logBlocksToBeDeleted")
            if found or not blocks:
                paths[partition] = paths.get(partition, ()) + found
            else:
                log_rollbacks.append(_read_log_rollback(request, blocks, instant, path))
        return cls(instant, Action(target["action"]), paths, tuple(log_rollbacks))


def plan_rollback(
    instant: Instant,
    *,
    markers: Iterable[Marker] = (),
    files: Iterable[BaseFile | LogFile] = (),
    by_listing: bool = False,
    metadata: CommitMetadata | None = None,
    restores: bool = False,
    form: RollbackForm,
) -> RollbackPlan:
    """Plan undoing `instant` from its markers and from `files`, which were listed.

    `form` is that of the table's layout.
    `files` holds at least the log files in the partitions of APPEND markers. `by_listing` says that
    they are those of the whole table, so that everything the instant wrote is among them;
    `metadata` is then the instant's commit metadata or the workload profile of an inflight one.
    `restores`: the table goes back to before `instant`, so that all that was built on it goes too.
    Raises CorruptTableError for a marker that names no data file, or one of another instant.
    """
    appends = form is RollbackForm.COMMAND_BLOCKS
    building = _PlanInProgress(instant, tuple(files), appends)
    for marker in markers:
        building.add_marker(marker)
    if by_listing:
        # On top of what a pending compaction writes, later writers have appended already.
        keeps_logs = appends and instant.action is Action.COMPACTION and not restores
        for file in building.files:
            if file.instant == instant.time and not (keeps_logs and _is_appended(file)):
                building.doom(file.partition, file.path)
        if appends and instant.action in (Action.DELTACOMMIT, Action.LOGCOMPACTION):
            building.add_appended(metadata or CommitMetadata())
    return building.finish()


def failed_instants(
    pending: Iterable[Instant], dead: Mapping[InstantTime, bool]
) -> tuple[Instant, ...]:
    """The pending writes to roll back, newest first as Hudi does.

    `dead` says for each pending instant whether its writer is known to be gone. Pending table
    services (compaction, clustering plans) are not failed writes: their plans stay. Whether a
    replacecommit or a log compaction counts is for the caller to say.
    """
    failed = [
        instant
        for instant in pending
        if instant.action in _MAY_FAIL and dead.get(instant.time, False)
    ]
    return tuple(sorted(failed, key=lambda instant: instant.time, reverse=True))


@dataclass(slots=True)
class _PlanInProgress:
    """What is to be deleted and undone so far; only `plan_rollback` holds one."""

    instant: Instant
    files: tuple[BaseFile | LogFile, ...]
    appends: bool
    """Whether writers append to slices of others."""
    paths: dict[str, set[str]] = field(default_factory=dict)
    appended: dict[Slice, set[str]] = field(default_factory=dict)
    """Per slice the log files known to be the instant's."""
    logs: dict[Slice, list[LogFile]] = field(init=False)

    def __post_init__(self) -> None:
        self.logs = {}
        for file in self.files:
            if isinstance(file, LogFile) and not file.is_cdc:
                self.logs.setdefault((file.group, file.instant), []).append(file)

    def doom(self, partition: str, path: str) -> None:
        self.paths.setdefault(partition, set()).add(path)

    def add_marker(self, marker: Marker) -> None:
        if marker.kind is not MarkerKind.APPEND or not self.appends:
            file = parse_data_file(marker.partition, marker.file_name, 0)
            if file is None or file.instant != self.instant.time:
                raise self._foreign(marker)
            self.doom(marker.partition, marker.path)
            return
        appended = marker.appended_slice
        if appended is None:
            raise self._foreign(marker)
        if marker.is_cdc:
            self.add_changes(marker, *appended)
            return
        self.appended.setdefault(appended, set()).add(marker.path)

    def add_changes(self, marker: Marker, group: FileGroupId, time: InstantTime) -> None:
        """A log of changes is one instant's alone, even where others append next to it."""
        if time != self.instant.time:
            raise self._foreign(marker)
        self.doom(marker.partition, marker.path)
        for file in self.files:
            is_log_of_changes = isinstance(file, LogFile) and file.is_cdc
            if is_log_of_changes and (file.group, file.instant) == (group, time):
                self.doom(file.partition, file.path)

    def add_appended(self, metadata: CommitMetadata) -> None:
        """Note the slices that a commit, or a workload profile, has stats of."""
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                log = LogFile.parse(*split_path(stat.path)) if stat.path else None
                if log is not None:
                    slice_ = FileGroupId(partition, log.file_id), log.instant
                    self.appended.setdefault(slice_, set()).add(log.path)
                elif not stat.path and stat.file_id and stat.prev_commit != NO_PREVIOUS_COMMIT:
                    self._add_profiled(FileGroupId(partition, stat.file_id), stat.prev_commit)

    def finish(self) -> RollbackPlan:
        rollbacks = []
        for (group, base_instant), marked in sorted(self.appended.items()):
            logs = sorted(self.logs.get((group, base_instant), ()), key=lambda log: log.version)
            if base_instant == self.instant.time:
                for path in marked | {log.path for log in logs}:
                    if split_path(path)[1].startswith("."):
                        self.doom(group.partition, path)
            elif logs:
                known = {log.path: log.size_bytes for log in logs if log.path in marked}
                files = known or {logs[-1].path: UNKNOWN_SIZE}
                rollbacks.append(LogRollback(group, base_instant, files))
        paths = {part: tuple(sorted(names)) for part, names in sorted(self.paths.items())}
        return RollbackPlan(self.instant.time, self.instant.action, paths, tuple(rollbacks))

    def _add_profiled(self, group: FileGroupId, located: str | None) -> None:
        """A writer that located rows in a base file appended to its slice or to a later one."""
        for found, base_instant in self.logs:
            if found == group and (located or "") <= str(base_instant) <= str(self.instant.time):
                self.appended.setdefault((group, base_instant), set())

    def _foreign(self, marker: Marker) -> CorruptTableError:
        return CorruptTableError(
            "a marker names a file that its instant did not write",
            instant=self.instant.time,
            path=marker.path,
        )


def _is_appended(file: BaseFile | LogFile) -> bool:
    """Whether it is a log of rows, which any writer appends to a slice."""
    return isinstance(file, LogFile) and not file.is_cdc


def _request(
    partition: str,
    *,
    file_id: str = "",
    base_instant: str = "",
    deleted: Iterable[str] = (),
    log_blocks: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    return {
        "partitionPath": partition,
        "fileId": file_id,
        "latestBaseInstant": base_instant,
        "filesToBeDeleted": list(deleted),
        "logBlocksToBeDeleted": dict(log_blocks or {}),
    }


def _read_log_rollback(
    request: Mapping[str, Any], blocks: Mapping[str, int], instant: InstantTime, path: str
) -> LogRollback:
    file_id, base = request.get("fileId") or "", request.get("latestBaseInstant") or ""
    if not file_id or not is_instant_time(base):
        raise CorruptTableError(
            "a rollback plan has log blocks of a file slice that it does not name",
            instant=instant,
            path=path,
            value=file_id or base,
        )
    partition = request.get("partitionPath") or ""
    files = zip(_names(blocks), blocks.values(), strict=True)
    return LogRollback(
        FileGroupId(partition, file_id),
        InstantTime(base),
        {join_path(partition, name): size for name, size in files},
    )


def _names(uris: Iterable[str]) -> list[str]:
    return [uri.rsplit("/", 1)[-1] for uri in uris]
