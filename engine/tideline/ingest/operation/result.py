"""What came of an operation, as one JSON value.

Texts are masked (`tideline.secret_values`): a message goes from a pod into a status.

On one line it has at most `RESULT_BYTES_MAX` bytes, small enough for a pod's termination message:
lists, texts and the audit are cut to fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tideline.errors import ConfigError, ConflictError, StorageUnavailableError, UnknownOutcomeError
from tideline.secret_values import masked, masked_json
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.wording import counted

RESULT_BYTES_MAX = 4_096
WORKER_DIED = "WorkerDied"
"""The `error` when the process that carried the operation out, or its Java, is gone."""
OUT_OF_MEMORY = "OutOfMemory"
"""The `error` when it was ended because it took more memory than it may: more of the same does not
help."""
STOPPED = "Stopped"
"""The `error` when the process that carried it out was asked to stop."""

FILE = "file"
"""What most sources consist of."""
_EXIT_CODES_SAFE_TO_RETRY = (
    ConflictError.exit_code,
    StorageUnavailableError.exit_code,
    UnknownOutcomeError.exit_code,
)


class Outcome(Enum):
    """How an operation ended. NOTHING: there was nothing left to do, and that is fine."""

    SUCCEEDED = "succeeded"
    NOTHING = "nothing"
    FAILED = "failed"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A source file that was not taken in, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What came of an operation. Sizes are bytes, times seconds; see CommitReport for the rows.

    `core_seconds` and `requests` are what it took of the processors of the machine, or pod, that
    carried it out, and of the store (`ResourceUsage`); executors in other pods are not among them.
    `index_lookups` and `index_fallbacks` are among it as well.

    `saved` is what readers and the store save from now on, of services alone.

    A rewrite reads files and writes others in their place; what is deleted is freed in the store.
    `files_cleared` are source files that were moved, or removed, once they were in the table.
    `columns_added` and `columns_widened` are those of the commit.

    `audit` says what a service did, file by file, or what a dry ingest found. It is the first to go
    when a result has to be short: the metrics are in the commit's metadata as well.
    """

    id: str
    outcome: Outcome
    message: str = ""
    exit_code: int = 0
    error: str | None = None
    instant: str | None = None
    write_operation: str | None = None
    files_written: int = 0
    rows_written: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_set_aside: int = 0
    bytes_written: int = 0
    files_read: int = 0
    bytes_read: int = 0
    files_deleted: int = 0
    bytes_deleted: int = 0
    seconds: float = 0.0
    core_seconds: float = 0.0
    requests: int = 0
    index_lookups: int = 0
    index_fallbacks: int = 0
    saved: Benefit = NO_BENEFIT
    source_files: int = 0
    source_bytes: int = 0
    source_part: str = FILE
    source_records: int = 0
    files_cleared: int = 0
    skipped: tuple[SkippedFile, ...] = ()
    rolled_back: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns_added: tuple[str, ...] = ()
    columns_widened: tuple[str, ...] = ()
    audit: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_safe_to_retry(self) -> bool:
        """Whether doing the same again may help, and nothing has to be corrected first.

        An unknown outcome is: an operation is bound to a checkpoint, or to a plan, that shows the
        next attempt whether the commit took place.
        """
        return self.exit_code in _EXIT_CODES_SAFE_TO_RETRY or self.error in (WORKER_DIED, STOPPED)

    @property
    def taken_in(self) -> str:
        """How much of the source was taken in, in words."""
        parts = counted(self.source_files, self.source_part)
        if self.source_part == FILE:
            return parts
        return f"{counted(self.source_records, 'record')} of {parts}"

    def to_json_object(self) -> dict[str, Any]:
        """The result as JSON, without what is empty, its texts masked."""
        content: dict[str, Any] = {"id": self.id, "outcome": self.outcome.value}
        for name in _RESULT_FIELDS:
            value = getattr(self, name)
            if value not in ("", 0, 0.0, None, ()) and (name, value) != ("source_part", FILE):
                content[name] = masked_json(value) if name in _TEXTS else value
        if self.saved != NO_BENEFIT:
            content["saved"] = self.saved.to_json_object()
        if self.skipped:
            content["skipped"] = [[masked(file.path), masked(file.reason)] for file in self.skipped]
        if self.audit:
            content["audit"] = [masked_json(item) for item in self.audit]
        return content

    def to_json(self, bytes_max: int = RESULT_BYTES_MAX) -> str:
        """One line of at most `bytes_max` bytes; lists and texts are cut to fit."""
        result = self
        for text_max, items_max in _CUTS:
            text = json.dumps(result.to_json_object(), ensure_ascii=False, separators=(",", ":"))
            if len(text.encode()) <= bytes_max:
                return text
            result = _cut(self, text_max, items_max)
        return json.dumps(result.to_json_object(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json_object(cls, content: Any) -> OperationResult:
        """Raises ConfigError when `content` is no result."""
        try:
            values = {name: content[name] for name in _RESULT_FIELDS if name in content}
            for name in _LISTS:
                values[name] = tuple(str(item) for item in values.get(name, ()))
            skipped = tuple(SkippedFile(path, why) for path, why in content.get("skipped", ()))
            audit = tuple(dict(item) for item in content.get("audit", ()))
            return cls(
                id=str(content["id"]),
                outcome=Outcome(content["outcome"]),
                saved=Benefit.from_json_object(content.get("saved") or {}),
                skipped=skipped,
                audit=audit,
                **values,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"this is not the result of an operation: {error}", value=str(content)[:200]
            ) from error


_RESULT_FIELDS = (
    "message",
    "exit_code",
    "error",
    "instant",
    "write_operation",
    "files_written",
    "rows_written",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "rows_set_aside",
    "bytes_written",
    "files_read",
    "bytes_read",
    "files_deleted",
    "bytes_deleted",
    "seconds",
    "core_seconds",
    "requests",
    "index_lookups",
    "index_fallbacks",
    "source_files",
    "source_bytes",
    "source_part",
    "source_records",
    "files_cleared",
    "rolled_back",
    "notes",
    "columns_added",
    "columns_widened",
)
_LISTS = ("rolled_back", "notes", "columns_added", "columns_widened")
_TEXTS = ("message", *_LISTS)
# Longest text and most items, one after another, until a result fits.
_CUTS = ((1_000, 10), (300, 5), (100, 3), (40, 1))


def _cut(result: OperationResult, text_max: int, items_max: int) -> OperationResult:
    def shorter(text: str) -> str:
        # Half a secret would not be recognised.
        text = masked(text)
        return text if len(text) <= text_max else text[: text_max - 3] + "..."

    def fewer(items: tuple[str, ...]) -> tuple[str, ...]:
        kept = tuple(shorter(item) for item in items[:items_max])
        left_out = len(items) - len(kept)
        return (*kept, f"and {left_out} more") if left_out else kept

    skipped = tuple(
        SkippedFile(shorter(file.path), shorter(file.reason)) for file in result.skipped[:items_max]
    )
    notes = fewer(result.notes)
    if len(skipped) < len(result.skipped):
        notes = (*notes, f"{counted(len(result.skipped), 'file')} skipped in all")
    return replace(
        result,
        message=shorter(result.message),
        skipped=skipped,
        rolled_back=fewer(result.rolled_back),
        notes=notes,
        columns_added=fewer(result.columns_added),
        columns_widened=fewer(result.columns_widened),
        audit=(),
    )
