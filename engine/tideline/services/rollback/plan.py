"""What a rollback removes: a pure function of a pending instant and of what its writer left.

1. Nothing but a requested instant: no data was written, the plan is empty.
2. Markers (one per data file, created before the file): delete the files they name. A marker that
   names the file of another instant is none of this writer's making: nothing is deleted then.
3. No markers but an inflight instant: another engine may have written without them. Hudi deletes
   nothing then, and the files become phantom rows once the rollback is archived; so the plan is
   made from a listing instead: every base file of that instant.

Source: Hudi's MarkerBasedRollbackStrategy and ListingBasedRollbackStrategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import CorruptTable, UnsupportedTable
from tideline.table.file_group import BaseFile
from tideline.table.file_system_view import parse_data_file
from tideline.table.markers import Marker, MarkerKind
from tideline.timeline.instant import Action, Instant
from tideline.timeline.instant_time import InstantTime

PLAN_VERSION = 1


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The files to delete for one instant, by partition (table-relative paths)."""

    instant: InstantTime
    action: Action
    paths: Mapping[str, tuple[str, ...]]

    def to_avro(self, base_uri: str) -> dict[str, Any]:
        """The HoodieRollbackPlan record; Hudi wants absolute paths."""
        return {
            "instantToRollback": {
                "commitTime": str(self.instant),
                "action": self.action.value,
            },
            "RollbackRequests": [
                {
                    "partitionPath": partition,
                    "fileId": "",
                    "latestBaseInstant": "",
                    "filesToBeDeleted": [f"{base_uri}/{path}"],
                    "logBlocksToBeDeleted": {},
                }
                for partition, paths in sorted(self.paths.items())
                for path in paths
            ],
            "version": PLAN_VERSION,
        }

    @classmethod
    def from_avro(cls, record: Mapping[str, Any], *, path: str) -> RollbackPlan:
        """Read a plan of ours or of Hudi's.

        Raises UnsupportedTable for log blocks to roll back: those need a command block.
        """
        target = record["instantToRollback"]
        paths: dict[str, tuple[str, ...]] = {}
        for request in record.get("RollbackRequests") or ():
            if request.get("logBlocksToBeDeleted"):
                raise UnsupportedTable(
                    "this rollback plan needs log command blocks, which are not supported yet",
                    instant=target["commitTime"],
                    path=path,
                )
            partition = request.get("partitionPath") or ""
            names = (uri.rsplit("/", 1)[-1] for uri in request.get("filesToBeDeleted") or ())
            found = tuple(f"{partition}/{name}" if partition else name for name in names)
            paths[partition] = paths.get(partition, ()) + found
        return cls(InstantTime.parse(target["commitTime"]), Action(target["action"]), paths)


def plan_rollback(
    instant: Instant,
    *,
    markers: Iterable[Marker],
    base_files: Iterable[BaseFile],
) -> RollbackPlan:
    """Plan the rollback of a pending instant from its markers and from a listing.

    `base_files` are those of a listing, where one was made; only files of the instant count.
    Raises UnsupportedTable for markers of log files, CorruptTable for a marker that names the
    file of another instant.
    """
    paths: dict[str, set[str]] = {}
    for marker in markers:
        paths.setdefault(marker.partition, set()).add(marked_path(marker, instant.time))
    for base_file in base_files:
        if base_file.instant == instant.time:
            paths.setdefault(base_file.partition, set()).add(base_file.path)
    return RollbackPlan(
        instant.time,
        instant.action,
        {partition: tuple(sorted(names)) for partition, names in sorted(paths.items())},
    )


def marked_path(marker: Marker, instant: InstantTime) -> str:
    """The file a rollback of `instant` deletes because of this marker. Raises as plan_rollback."""
    if marker.kind is MarkerKind.APPEND:
        raise UnsupportedTable(
            "rolling back appended log files is not supported yet",
            instant=instant,
            path=marker.path,
        )
    file = parse_data_file(marker.partition, marker.file_name, 0)
    if file is None or file.instant != instant:
        raise CorruptTable(
            "a marker names a file that its instant did not write",
            instant=instant,
            path=marker.path,
        )
    return marker.path


def failed_instants(
    pending: Iterable[Instant], dead: Mapping[InstantTime, bool]
) -> tuple[Instant, ...]:
    """The pending writes to roll back, newest first as Hudi does.

    `dead` says for each pending instant whether its writer is known to be gone. Pending table
    services (compaction, clustering plans) are not failed writes: their plans stay.
    """
    failed = [
        instant
        for instant in pending
        if instant.action in (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
        and dead.get(instant.time, False)
    ]
    return tuple(sorted(failed, key=lambda instant: instant.time, reverse=True))
