"""Which snapshot a read is of, and the columns that its rows have.

1. The name of a branch or tag is its snapshot, the id of a snapshot that one.
2. A time means what readers of the main branch saw then, by the table's own log: after a rollback
   that is not the newest snapshot made until then. A time reads the same for ever, so that the
   future is refused, and what has expired.
3. A branch, as without any choice, is read in the table's columns of today; a tag, a snapshot and
   a time in those of the snapshot.

Source: Iceberg's `SnapshotUtil.schemaFor` and `snapshotIdAsOfTime`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from operator import index
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot
from tideline.iceberg.metadata.table_metadata import SnapshotLogEntry, TableMetadata

_BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class SnapshotChoice:
    """A snapshot to read, None for a table without any; `metadata` has its columns as current."""

    metadata: TableMetadata
    snapshot: Snapshot | None

    @classmethod
    def of(cls, metadata: TableMetadata, as_of: Any = None, *, now_ms: int) -> SnapshotChoice:
        """What `as_of` means: a name, an id, or a time (text, date, datetime; UTC where it has no
        zone); what the main branch leads to for None. Raises ConfigError for what is none of
        these, and for a snapshot that the table does not keep."""
        if as_of is None:
            return cls(metadata, metadata.snapshot())
        ref = metadata.refs.get(as_of) if isinstance(as_of, str) else None
        if ref is not None:
            found = metadata.snapshot(ref.snapshot_id)
            return cls(metadata, found) if ref.type == _BRANCH else cls._then(metadata, found)
        return cls._then(metadata, named_snapshot(metadata, as_of, now_ms=now_ms))

    @classmethod
    def _then(cls, metadata: TableMetadata, snapshot: Snapshot | None) -> SnapshotChoice:
        if snapshot is None or snapshot.schema_id is None:
            return cls(metadata, snapshot)
        # Checks that there is such a schema.
        metadata.schema(snapshot.schema_id)
        return cls(replace(metadata, current_schema_id=snapshot.schema_id), snapshot)


def named_snapshot(metadata: TableMetadata, given: Any, *, now_ms: int) -> Snapshot:
    """The snapshot of a name, an id or a time. Raises ConfigError."""
    if isinstance(given, str) and given in metadata.refs:
        given = metadata.refs[given].snapshot_id
    number = _whole_number(given)
    found = None if number is None else metadata.snapshot(number)
    if found is not None:
        return found
    moment_ms = time_asked(metadata, given)
    if moment_ms is None:
        names = ", ".join(sorted(metadata.refs)) or "none"
        raise ConfigError(
            "the table keeps no such snapshot, has no such branch or tag, and this is no time such "
            f"as 2026-11-21T10:00; its branches and tags are {names}",
            table=metadata.location,
            value=given,
        )
    return _at(metadata, moment_ms, given, now_ms)


def time_asked(metadata: TableMetadata, given: Any) -> int | None:
    """The time that something means, in milliseconds since 1970; None for what is another name or
    id, or neither."""
    is_name = isinstance(given, str) and given in metadata.refs
    number = _whole_number(given)
    if is_name or (number is not None and metadata.snapshot(number) is not None):
        return None
    moment = None if number is not None and not isinstance(given, str) else _moment(given)
    return None if moment is None else round(moment.timestamp() * 1000)


def time_text(timestamp_ms: int) -> str:
    """A time as people write it, UTC."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def main_log(metadata: TableMetadata) -> list[SnapshotLogEntry]:
    """What the main branch led to, oldest first; its ancestry where no log was kept."""
    if metadata.snapshot_log:
        return sorted(metadata.snapshot_log, key=lambda entry: entry.timestamp_ms)
    main = metadata.ref_snapshot(MAIN)
    ancestors = metadata.ancestors(None if main is None else main.snapshot_id)
    return [
        SnapshotLogEntry(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in ancestors
    ][::-1]


def _at(metadata: TableMetadata, timestamp_ms: int, given: Any, now_ms: int) -> Snapshot:
    if timestamp_ms > max(now_ms, metadata.last_updated_ms):
        raise ConfigError(
            f"this time is in the future: now it is {time_text(now_ms)}; leave it out to read what "
            "is there",
            table=metadata.location,
            value=given,
        )
    log = main_log(metadata)
    known = [entry for entry in log if entry.timestamp_ms <= timestamp_ms]
    if not known:
        message = "the table has no snapshot yet"
        if log:
            message = (
                f"the table's log begins at {time_text(log[0].timestamp_ms)}: there was no table "
                "before, or its snapshots have expired"
            )
        raise ConfigError(message, table=metadata.location, value=given)
    found = metadata.snapshot(known[-1].snapshot_id)
    if found is None:
        raise ConfigError(
            f"the snapshot of this time, {known[-1].snapshot_id}, has expired",
            table=metadata.location,
            value=given,
        )
    return found


def _whole_number(given: Any) -> int | None:
    """Numbers of numpy too, and texts of digits."""
    if isinstance(given, bool):
        return None
    if isinstance(given, str):
        text = given.strip()
        return int(text) if text.isascii() and text.isdecimal() else None
    try:
        return index(given)
    except TypeError:
        return None


def _moment(given: Any) -> datetime | None:
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given.strip())
        except ValueError:
            return None
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time())
    if not isinstance(given, datetime):
        return None
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)
