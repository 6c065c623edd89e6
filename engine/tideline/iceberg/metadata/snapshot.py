"""Snapshots and the names that point to them (spec, "Snapshots" and "Snapshot References")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import CorruptTableError

MAIN = "main"
"""The branch that plain readers and writers use."""

_KNOWN = frozenset(
    {
        *("snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "summary"),
        *("manifest-list", "manifests", "schema-id", "first-row-id", "added-rows"),
    }
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table's state after one commit.

    `manifest_list` is a location, or None in old version 1 tables, which list `manifests` here.
    `extra` holds fields this code does not know, so that they survive.
    """

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    summary: Mapping[str, str]
    manifest_list: str | None
    manifests: tuple[str, ...] = ()
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Snapshot:
        """From table metadata. Raises CorruptTableError."""
        try:
            summary = dict(value.get("summary") or {})
            return cls(
                snapshot_id=int(value["snapshot-id"]),
                parent_snapshot_id=value.get("parent-snapshot-id"),
                sequence_number=int(value.get("sequence-number", 0)),
                timestamp_ms=int(value["timestamp-ms"]),
                operation=summary.pop("operation", None),
                summary=summary,
                manifest_list=value.get("manifest-list"),
                manifests=tuple(value.get("manifests") or ()),
                schema_id=value.get("schema-id"),
                first_row_id=value.get("first-row-id"),
                added_rows=value.get("added-rows"),
                extra={name: item for name, item in value.items() if name not in _KNOWN},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptTableError(f"a snapshot lacks {error}", value=value) from error

    def json(self, format_version: int) -> dict[str, Any]:
        """The JSON that `parse` reads back, as `format_version` has it."""
        document: dict[str, Any] = {}
        if format_version > 1:
            document["sequence-number"] = self.sequence_number
        document["snapshot-id"] = self.snapshot_id
        optional: tuple[tuple[str, Any], ...] = (
            ("parent-snapshot-id", self.parent_snapshot_id),
            ("timestamp-ms", self.timestamp_ms),
            ("summary", self._summary_json()),
            ("manifest-list", self.manifest_list),
            ("manifests", list(self.manifests) or None),
            ("schema-id", self.schema_id),
            ("first-row-id", self.first_row_id),
            ("added-rows", self.added_rows),
        )
        document |= {name: value for name, value in optional if value is not None}
        return document | dict(self.extra)

    def _summary_json(self) -> dict[str, str] | None:
        if self.operation is None:
            return dict(self.summary) or None
        return {"operation": self.operation, **self.summary}


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A branch or a tag, and how long what it leads to is kept (None: the table's setting)."""

    snapshot_id: int
    type: str = "branch"
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> SnapshotRef:
        """From table metadata. Raises CorruptTableError."""
        try:
            return cls(
                int(value["snapshot-id"]),
                str(value["type"]).lower(),
                value.get("min-snapshots-to-keep"),
                value.get("max-snapshot-age-ms"),
                value.get("max-ref-age-ms"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptTableError(f"a snapshot reference lacks {error}", value=value) from error

    def json(self) -> dict[str, Any]:
        """The JSON that `parse` reads back."""
        document: dict[str, Any] = {"snapshot-id": self.snapshot_id, "type": self.type}
        for name, value in (
            ("min-snapshots-to-keep", self.min_snapshots_to_keep),
            ("max-snapshot-age-ms", self.max_snapshot_age_ms),
            ("max-ref-age-ms", self.max_ref_age_ms),
        ):
            if value is not None:
                document[name] = value
        return document
