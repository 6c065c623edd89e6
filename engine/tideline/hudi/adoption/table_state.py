"""What lies in a Hudi table, as values: instants, files that readers see, what is foreign. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.hudi.table.file_counts import FileCounts
from tideline.hudi.timeline.instant import Instant
from tideline.plain_json import members


@dataclass(frozen=True, slots=True)
class PendingInstant:
    """An instant that is under way, or was left. `is_silent`: no heartbeat says that it lives."""

    instant: Instant
    is_silent: bool

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "instant": str(self.instant.time),
            "action": str(self.instant.action),
            "state": self.instant.state.value.lower(),
            "silent": self.is_silent,
        }


@dataclass(frozen=True, slots=True)
class ForeignFiles:
    """What is not the table's: other tables below it by root and format, files of unknown names."""

    nested: Mapping[str, str] = field(default_factory=dict)
    count: int = 0
    size_bytes: int = 0
    examples: tuple[str, ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "nested_tables": [
                {"path": root, "format": name.lower()} for root, name in sorted(self.nested.items())
            ],
            "files": self.count,
            "size_bytes": self.size_bytes,
            "examples": list(self.examples),
        }


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What becomes of a partition of the metadata table here: what a commit reads and writes to
    keep it, in words; or `why_dropped`, where the first one drops it."""

    name: str
    reads: str = ""
    writes: str = ""
    why_dropped: str | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether the first commit takes it away."""
        return self.why_dropped is not None

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        named = members(self, "name", "reads", "writes", reason="why_dropped")
        return {**named, "kept": not self.is_dropped}


@dataclass(frozen=True, slots=True)
class TableState:
    """What lies in a table. `files` is None where plans or commits cannot be read, and
    `metadata_partitions`, those of a metadata table that is kept, are then empty."""

    commits: int
    newest: str | None
    pending: tuple[PendingInstant, ...]
    savepoints: tuple[str, ...]
    has_archive: bool
    files: FileCounts | None
    stored_files: int
    stored_bytes: int
    outside_partitions: int
    has_metadata_table: bool
    foreign: ForeignFiles
    published_files: int = 0
    unreadable: tuple[str, ...] = ()
    metadata_partitions: tuple[PartitionState, ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "commits": self.commits,
            "newest_commit": self.newest,
            **members(self, "pending", "savepoints", "has_archive", "files"),
            "data_files_of_all_versions": self.stored_files,
            "data_bytes_of_all_versions": self.stored_bytes,
            "data_files_outside_partitions": self.outside_partitions,
            **members(self, "has_metadata_table", "published_files", "foreign", "unreadable"),
            "metadata_partitions": [
                partition.to_json_object() for partition in self.metadata_partitions
            ],
        }
