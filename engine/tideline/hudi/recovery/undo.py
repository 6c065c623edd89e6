"""Doing what a rollback plan says to the table's files, so that doing it again changes nothing.

1. The planned files are deleted; deleting a missing one is fine.
2. Every planned slice gets a new log file of one command block: the next version, and a write token
   that no writer has. Died in between, or after: the next run finds that very file, if it is
   there, and does not write another. Even a second one would only repeat what the first says.

Instants are none of its business; a restore undoes many instants with it under one of its own.
Source: Hudi's RollbackHelperV1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.log_block import (
    BlockFrame,
    HeaderKey,
    read_frames,
    rollback_command_block,
)
from tideline.hudi.recovery.plan import LogRollback, RollbackPlan
from tideline.hudi.table.file_group import LogFile, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.object_store import AlreadyExists, ObjectStore

COMMAND_WRITE_TOKEN = "1-0-1"
"""What Hudi puts where a task's token is in the names of log files with a command block."""


@dataclass(frozen=True, slots=True)
class UndoneFiles:
    """What became of the files: paths relative to the table.

    `command_logs` are the log files that hold the command blocks, with their sizes in bytes.
    """

    plan: RollbackPlan
    command_logs: Mapping[str, int] = field(default_factory=dict)

    @property
    def deleted(self) -> tuple[str, ...]:
        return self.plan.deleted_paths

    @property
    def logs_left(self) -> Mapping[str, int]:
        """The logs that stay, by path with their sizes in bytes: those that were undone, and those
        with the commands."""
        undone = {
            path: size for item in self.plan.log_rollbacks for path, size in item.log_files.items()
        }
        return {**undone, **self.command_logs}

    def to_avro(self, base_uri: str, *, started: InstantTime, elapsed_ms: int) -> dict[str, Any]:
        """The HoodieRollbackMetadata record; Hudi wants absolute paths, and `started` as digits."""
        plan = self.plan
        partitions = {part: _partition_record(part) for part in sorted(_partitions(plan))}
        for partition, paths in plan.paths.items():
            uris = [f"{base_uri}/{path}" for path in paths]
            partitions[partition]["successDeleteFiles"] = uris
        for item in plan.log_rollbacks:
            undone = {f"{base_uri}/{path}": size for path, size in item.log_files.items()}
            partitions[item.group.partition]["logFilesFromFailedCommit"] |= undone
        for path, size in self.command_logs.items():
            partition = path.rpartition("/")[0]
            partitions[partition]["rollbackLogFiles"][f"{base_uri}/{path}"] = size
        return {
            "startRollbackTime": str(started),
            "timeTakenInMillis": elapsed_ms,
            "totalFilesDeleted": len(self.deleted),
            "commitsRollback": [str(plan.instant)],
            "partitionMetadata": partitions,
            "version": 1,
            "instantsRollback": [{"commitTime": str(plan.instant), "action": plan.action.value}],
        }


def undo_files(table: HoodieTable, plan: RollbackPlan, rollback: InstantTime) -> UndoneFiles:
    """Delete the planned files and write the planned command blocks in the name of `rollback`.

    Raises UnsupportedTableError before anything is done where readers would ignore the blocks.
    """
    if plan.log_rollbacks and table.layout.rollback is not RollbackForm.COMMAND_BLOCKS:
        raise UnsupportedTableError(
            "a rollback in this table deletes log files, and its plan does not",
            table=table.uri,
            instant=plan.instant,
        )
    deletion_scope(table, plan).remove_many(plan.deleted_paths)
    logs = (_write_command_block(table.store, plan, item, rollback) for item in plan.log_rollbacks)
    return UndoneFiles(plan, {log.path: log.size_bytes for log in logs})


def deletion_scope(table: HoodieTable, plan: RollbackPlan) -> DeleteScope:
    """What undoing one instant may delete: data files that carry its time in their names.

    A plan may be another writer's, and the files it names may be any writer's.
    """

    def objection(path: str) -> str | None:
        file = parse_data_file(*split_path(path), 0)
        if file is None:
            return "it is not a data file"
        if file.instant != plan.instant:
            return f"instant {file.instant} wrote it, not {plan.instant}"
        return None

    return table.files.delete_scope(f"the rollback of {plan.instant}", objection)


def instants_in_log(store: ObjectStore, log: LogFile) -> frozenset[str] | None:
    """The instants whose data and delete blocks a log file holds; None when it cannot be read, or
    is gone."""

    def read_range(offset: int, length: int) -> bytes:
        return store.get_range(log.path, offset=offset, length=length)

    try:
        frames = read_frames(read_range, log.size_bytes, path=log.path)
    except (CorruptTableError, ObjectNotFoundError, UnsupportedTableError):
        return None
    return frozenset(_instants(frames))


def may_count(table: HoodieTable, log: LogFile, timeline: ActiveTimeline) -> bool:
    """Whether a log may hold what counts, by the table's timeline: where a rollback appends
    commands, logs stay that hold nothing of that kind."""
    if table.layout.rollback is not RollbackForm.COMMAND_BLOCKS:
        return True
    writers = instants_in_log(table.store, log)
    return writers is None or any(timeline.is_committed(InstantTime(time)) for time in writers)


def _instants(frames: Iterable[BlockFrame]) -> Iterable[str]:
    for frame in frames:
        if not frame.is_rollback and HeaderKey.INSTANT_TIME in frame.headers:
            yield frame.headers[HeaderKey.INSTANT_TIME]


def _write_command_block(
    store: ObjectStore, plan: RollbackPlan, item: LogRollback, rollback: InstantTime
) -> LogFile:
    """The log file with the block; the one of an earlier attempt when that got so far."""
    body = rollback_command_block(str(rollback), str(plan.instant))
    found = _logs_of_slice(store, item)
    for log in found:
        is_command = log.write_token == COMMAND_WRITE_TOKEN and log.size_bytes == len(body)
        if is_command and store.get(log.path) == body:
            return log
    version = max((log.version for log in found), default=0)
    group = item.group
    while True:
        version += 1
        log = LogFile(
            group.partition,
            group.file_id,
            item.base_instant,
            version,
            COMMAND_WRITE_TOKEN,
            len(body),
        )
        # Its text names the rollback, so a repeated request knows its own object.
        outcome = store.put_if_absent(log.path, body, token=str(rollback))
        if not isinstance(outcome, AlreadyExists):
            return log


def _logs_of_slice(store: ObjectStore, item: LogRollback) -> list[LogFile]:
    partition = item.group.partition
    listed = (
        LogFile.parse(partition, info.path.rpartition("/")[2], info.size_bytes)
        for info in store.list_directory(partition).objects
    )
    return [
        log
        for log in listed
        if log is not None and log.group == item.group and log.instant == item.base_instant
    ]


def _partitions(plan: RollbackPlan) -> set[str]:
    return {*plan.paths, *(item.group.partition for item in plan.log_rollbacks)}


def _partition_record(partition: str) -> dict[str, Any]:
    return {
        "partitionPath": partition,
        "successDeleteFiles": [],
        "failedDeleteFiles": [],
        "rollbackLogFiles": {},
        "logFilesFromFailedCommit": {},
    }
