"""What a savepoint says: HoodieSavepointMetadata, the files it keeps by partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import parser
from tideline.errors import CorruptTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.hudi.table.file_group import LogFile, join_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.wording import counted

_SCHEMA = "HoodieSavepointMetadata"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """One savepoint. `files` are bare names by partition; an unfinished one keeps nothing yet."""

    instant: InstantTime
    created_by: str = ""
    created_at_ms: int = 0
    comment: str = ""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_completed: bool = True

    @property
    def file_count(self) -> int:
        return sum(len(names) for names in self.files.values())

    def encode(self) -> bytes:
        """The body of the completed savepoint."""
        record = {
            "savepointedBy": self.created_by,
            "savepointedAt": self.created_at_ms,
            "comments": self.comment,
            "partitionMetadata": {
                partition: {"partitionPath": partition, "savepointDataFile": list(names)}
                for partition, names in self.files.items()
            },
            "version": 1,
        }
        return encode_container(_SCHEMA, record)

    @classmethod
    @parser("a savepoint lacks a field, or one is wrong")
    def decode(cls, instant: InstantTime, body: bytes, *, path: str) -> Savepoint:
        """Read one of ours or of Hudi's. Raises CorruptTableError naming `path`."""
        record = decode_container(body, path=path)
        partitions: Mapping[str, Mapping[str, Any]] = record.get("partitionMetadata") or {}
        return cls(
            instant,
            record.get("savepointedBy") or "",
            record.get("savepointedAt") or 0,
            record.get("comments") or "",
            {
                partition: tuple(entry.get("savepointDataFile") or ())
                for partition, entry in partitions.items()
            },
        )


def read_savepoint(table: HoodieTable, instant: Instant) -> Savepoint:
    """A completed savepoint, or what is known of an unfinished one.

    Raises CorruptTableError, and ObjectNotFoundError when it is gone.
    """
    if instant.is_pending:
        return Savepoint(instant.time, is_completed=False)
    path = table.timelines.path(table.timelines.stored(instant))
    return Savepoint.decode(instant.time, table.store.get(path), path=path)


def savepointed_files(table: HoodieTable, timeline: ActiveTimeline) -> Mapping[str, frozenset[str]]:
    """The file names that completed savepoints keep, by partition. Raises CorruptTableError."""
    names: dict[str, set[str]] = {}
    for instant in timeline.of(Action.SAVEPOINT).completed():
        for partition, files in read_savepoint(table, instant).files.items():
            names.setdefault(partition, set()).update(files)
    return {partition: frozenset(found) for partition, found in names.items()}


def require_files(table: HoodieTable, savepoint: InstantTime) -> None:
    """Raise CorruptTableError unless every file that the savepoint names is there.

    One of Hudi's may name logs of later commits, which a restore before has undone.
    """
    timeline = table.timeline()
    kept = read_savepoint(table, Instant(savepoint, Action.SAVEPOINT, State.COMPLETED))
    listed = table.files.listing(kept.files)
    for partition, names in kept.files.items():
        present = {name for name, _ in listed[partition]}
        missing = sorted(
            name
            for name in set(names) - present
            if not _is_undone(table, timeline, LogFile.parse(partition, name))
        )
        if missing:
            raise CorruptTableError(
                f"{counted(len(missing), 'file')} of this savepoint missing",
                table=table.uri,
                instant=savepoint,
                path=join_path(partition, missing[0]),
            )


def _is_undone(table: HoodieTable, timeline: ActiveTimeline, log: LogFile | None) -> bool:
    deletes = table.layout.rollback is RollbackForm.DELETES
    return deletes and log is not None and not timeline.is_committed(log.instant)
