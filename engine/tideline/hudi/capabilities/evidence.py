"""What earlier writers left in commits and in `.hoodie/`: schema history, locks, keys, Flink. Pure.

Hudi keeps a schema with column ids (`latest_schema` in extra metadata, `.hoodie/.schema/`) once a
column was renamed, dropped or retyped by ALTER TABLE; otherwise columns are found by name. Which
lock a writer takes stands in no commit; Hudi's file system lock leaves `.hoodie/lock`, the storage
lock `.hoodie/.locks/table_lock.json`.
Source: Hudi's SerDeHelper, FileSystemBasedLockProvider, StorageBasedLockProvider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.capabilities.flink_writers import is_flink_file_id
from tideline.hudi.table.internal_schema import LATEST_SCHEMA_KEY, SCHEMA_DIRECTORY
from tideline.hudi.table.table_config import PROPERTIES_PATH, TableConfig
from tideline.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant
from tideline.plain_json import members

_KEPT_SCHEMA = f".{Action.SCHEMACOMMIT}"
FILE_SYSTEM_LOCK = "lock"
_PROVIDER = ".lock.provider"
STORAGE_LOCK = ".locks/table_lock.json"


@dataclass(frozen=True, slots=True)
class SchemaEvidence:
    """How columns are known: by ids, which outlive a new name, or by their names.

    `version` is the instant of the newest schema with ids, `known_from` where it was found.
    `columns` counts those of the newest commit that says, None where none does.
    """

    by_ids: bool = False
    version: str | None = None
    known_from: str | None = None
    columns: int | None = None

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "columns_by": "ids" if self.by_ids else "names",
            **members(self, "version", "known_from", "columns"),
        }


@dataclass(frozen=True, slots=True)
class WriterEvidence:
    """What the newest commits say about their writers.

    `keys` are those of extra metadata, among them the names of Hudi's settings that a writer was
    configured to keep there; values may be secrets and are left out. `lock` is the lock provider
    and `lock_known_from` what says so, "" where nothing does. `has_flink`: a Flink job was among
    them.
    """

    commits_read: int = 0
    operations: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    lock: str = ""
    lock_known_from: str = ""
    has_flink: bool = False

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "commits_read": self.commits_read,
            "operations": list(self.operations),
            "extra_metadata_keys": list(self.keys),
            "lock_provider": self.lock or None,
            "lock_known_from": self.lock_known_from or None,
            "flink": self.has_flink,
        }


@dataclass(frozen=True, slots=True)
class ControlFolder:
    """The names in `.hoodie/`, the storage lock's among them, and the names of kept schemas.

    `has_flink`: a Flink job left something in its folder for auxiliary files.
    """

    objects: frozenset[str] = frozenset()
    schemas: tuple[str, ...] = ()
    has_flink: bool = False


Commits = Iterable[tuple[Instant, CommitMetadata]]
"""Newest first."""


def schema_evidence(commits: Commits, folder: ControlFolder) -> SchemaEvidence:
    """Of the newest commits and the names in `.hoodie/`."""
    read = tuple(commits)
    columns = next(
        filter(None, (_columns(commit_metadata.schema_json) for _, commit_metadata in read)), None
    )
    for instant, metadata in read:
        found = metadata.extra_metadata.get(LATEST_SCHEMA_KEY)
        if found:
            where = f"{LATEST_SCHEMA_KEY} of commit {instant.time}"
            return SchemaEvidence(True, _version(found), where, columns)
    kept = sorted(name for name in folder.schemas if name.endswith(_KEPT_SCHEMA))
    if kept:
        version = kept[-1].removesuffix(_KEPT_SCHEMA)
        return SchemaEvidence(True, version, SCHEMA_DIRECTORY, columns)
    known_from = f"{SCHEMA_KEY} of the newest commit" if columns is not None else None
    return SchemaEvidence(known_from=known_from, columns=columns)


def writer_evidence(commits: Commits, folder: ControlFolder, config: TableConfig) -> WriterEvidence:
    """Of the newest commits, the names in `.hoodie/` and the properties."""
    read = tuple(commits)
    extra = {
        key: value
        for _, commit_metadata in reversed(read)
        for key, value in commit_metadata.extra_metadata.items()
    }
    lock, known_from = _lock(config, extra, folder)
    return WriterEvidence(
        commits_read=len(read),
        operations=tuple(sorted({commit_metadata.operation_type for _, commit_metadata in read})),
        keys=tuple(sorted(key for key in extra if key != SCHEMA_KEY)),
        lock=lock,
        lock_known_from=known_from,
        has_flink=folder.has_flink
        or any(
            is_flink_file_id(stat.file_id or "")
            for _, commit_metadata in read
            for stat in commit_metadata.write_stats
        ),
    )


def _lock(config: TableConfig, extra: Mapping[str, str], folder: ControlFolder) -> tuple[str, str]:
    for found, where in ((config.properties, PROPERTIES_PATH), (extra, "commits")):
        provider = next((text for name, text in found.items() if name.endswith(_PROVIDER)), "")
        if provider:
            return provider, where
    if FILE_SYSTEM_LOCK in folder.objects:
        return "FileSystemBasedLockProvider", f".hoodie/{FILE_SYSTEM_LOCK}"
    if STORAGE_LOCK in folder.objects:
        return "StorageBasedLockProvider", f".hoodie/{STORAGE_LOCK}"
    return "", ""


def _columns(schema_json: str | None) -> int | None:
    if not schema_json:
        return None
    try:
        return len(parse_json(schema_json)["fields"])
    except (CorruptTableError, UnsupportedTableError, *PARSER_FAULTS):
        return None


def _version(latest_schema: str) -> str | None:
    try:
        return str(parse_json(latest_schema)["version_id"])
    except (CorruptTableError, UnsupportedTableError, *PARSER_FAULTS):
        return None
