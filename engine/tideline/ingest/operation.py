"""Operations: what a planner decided, as one JSON value that any process can carry out.

`tideline execute --operation FILE` and the local worker read an `Operation` and answer with an
`OperationResult` of at most `RESULT_BYTES_MAX` bytes, small enough for a pod's termination message.
The id follows from what the operation does, so the same plan made twice is the same operation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.landing import FileFormat, LandingFile

RESULT_BYTES_MAX = 4_096
_VERSION = 1
_NAME_CHARACTERS = 32
_DIGEST_BYTES = 6


class OperationKind(Enum):
    """What an operation does."""

    CREATE = "create"
    INGEST = "ingest"
    ROLLBACK = "rollback"

    def __str__(self) -> str:
        return self.value


class Outcome(Enum):
    """How an operation ended. NOTHING: there was nothing left to do, and that is fine."""

    SUCCEEDED = "succeeded"
    NOTHING = "nothing"
    FAILED = "failed"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is: the value of a StoreLocation, for those who never open one."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TableTarget:
    """The table: `properties` are for its creation and, as write settings, for every write."""

    name: str
    location: Place
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    table_type: str = "COPY_ON_WRITE"
    schema: tuple[Column, ...] = ()
    creation_properties: Mapping[str, str] = field(default_factory=dict)
    write_properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create the table with its declared schema."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Roll back what dead writers left; `instants` are those seen when planning."""

    instants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IngestFiles:
    """Take `files` into the table, if its checkpoint is still at `generation`.

    `once_number` is the number of the `once` run this belongs to, None for other triggers.
    """

    name: str
    landing: Place
    file_format: FileFormat
    files: tuple[LandingFile, ...]
    generation: int
    write_operation: str = "upsert"
    options: Mapping[str, str] = field(default_factory=dict)
    source_schema: tuple[Column, ...] = ()
    transform: str | None = None
    delete_when: str | None = None
    quarantines: bool = True
    once_number: int | None = None


Work = CreateTable | IngestFiles | RollBack


@dataclass(frozen=True, slots=True)
class Operation:
    """One piece of work on one table."""

    id: str
    table: TableTarget
    work: Work

    @property
    def kind(self) -> OperationKind:
        match self.work:
            case CreateTable():
                return OperationKind.CREATE
            case IngestFiles():
                return OperationKind.INGEST
            case RollBack():
                return OperationKind.ROLLBACK

    @property
    def subject(self) -> str:
        """Name of the ingest, or nothing."""
        return self.work.name if isinstance(self.work, IngestFiles) else ""

    def to_json_object(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "id": self.id,
            "kind": self.kind.value,
            "table": _table_object(self.table),
            "work": _work_object(self.work),
        }

    @classmethod
    def from_json_object(cls, content: Any) -> Operation:
        """Raises ConfigError when `content` is no operation of this version."""
        try:
            if content["version"] != _VERSION:
                raise ConfigError(
                    f"This operation is of version {content['version']}, known is {_VERSION}"
                )
            work = _read_work(OperationKind(content["kind"]), content["work"])
            return cls(str(content["id"]), _read_table(content["table"]), work)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"This is no operation: {type(error).__name__} {error}", value=str(content)[:200]
            ) from error


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A source file that was not taken in, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What came of an operation. Sizes are bytes, times seconds; see CommitReport for the rows."""

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
    bytes_written: int = 0
    seconds: float = 0.0
    source_files: int = 0
    source_bytes: int = 0
    skipped: tuple[SkippedFile, ...] = ()
    rolled_back: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        """The result as JSON, without what is empty."""
        content: dict[str, Any] = {"id": self.id, "outcome": self.outcome.value}
        for name in _RESULT_FIELDS:
            value = getattr(self, name)
            if value not in ("", 0, 0.0, None, ()):
                content[name] = list(value) if isinstance(value, tuple) else value
        if self.skipped:
            content["skipped"] = [[file.path, file.reason] for file in self.skipped]
        return content

    def to_json(self) -> str:
        """One line of at most RESULT_BYTES_MAX bytes; lists and texts are cut to fit."""
        result = self
        for text_max, items_max in _CUTS:
            text = json.dumps(result.to_json_object(), ensure_ascii=False, separators=(",", ":"))
            if len(text.encode()) <= RESULT_BYTES_MAX:
                return text
            result = _cut(self, text_max, items_max)
        return json.dumps(result.to_json_object(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json_object(cls, content: Any) -> OperationResult:
        """Raises ConfigError when `content` is no result."""
        try:
            values = {name: content[name] for name in _RESULT_FIELDS if name in content}
            for name in ("rolled_back", "notes"):
                values[name] = tuple(str(item) for item in values.get(name, ()))
            skipped = tuple(SkippedFile(path, why) for path, why in content.get("skipped", ()))
            outcome = Outcome(content["outcome"])
            return cls(id=str(content["id"]), outcome=outcome, skipped=skipped, **values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"This is no result of an operation: {error}", value=str(content)[:200]
            ) from error


def operation_id(table_name: str, kind: OperationKind, *basis: object) -> str:
    """An id from what the operation does, fit to be the name of a Kubernetes Job.

    `table_name` only makes it readable; `basis` must tell operations apart.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in (table_name, kind.value, *basis):
        text = str(part).encode()
        digest.update(len(text).to_bytes(8, "big") + text)
    words = "".join(letter if letter.isalnum() else "-" for letter in table_name.lower())
    readable = words.encode("ascii", "ignore").decode()[:_NAME_CHARACTERS].strip("-") or "table"
    return f"{readable}-{kind.value}-{digest.hexdigest()}"


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
    "bytes_written",
    "seconds",
    "source_files",
    "source_bytes",
    "rolled_back",
    "notes",
)
# Longest text and most items, one after the other, until a result fits.
_CUTS = ((1_000, 10), (300, 5), (100, 3), (40, 1))


def _cut(result: OperationResult, text_max: int, items_max: int) -> OperationResult:
    def shorter(text: str) -> str:
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
        notes = (*notes, f"{len(result.skipped)} files skipped in all")
    return replace(
        result,
        message=shorter(result.message),
        skipped=skipped,
        rolled_back=fewer(result.rolled_back),
        notes=notes,
    )


def _table_object(table: TableTarget) -> dict[str, Any]:
    return {
        "name": table.name,
        "location": _place_object(table.location),
        "recordKey": list(table.record_key),
        "partitionBy": list(table.partition_by),
        "ordering": list(table.ordering),
        "tableType": table.table_type,
        "schema": _columns_object(table.schema),
        "creationProperties": dict(table.creation_properties),
        "writeProperties": dict(table.write_properties),
    }


def _read_table(content: Any) -> TableTarget:
    return TableTarget(
        name=str(content["name"]),
        location=_read_place(content["location"]),
        record_key=_texts(content["recordKey"]),
        partition_by=_texts(content["partitionBy"]),
        ordering=_texts(content["ordering"]),
        table_type=str(content["tableType"]),
        schema=_read_columns(content["schema"]),
        creation_properties=_text_mapping(content["creationProperties"]),
        write_properties=_text_mapping(content["writeProperties"]),
    )


def _work_object(work: Work) -> dict[str, Any]:
    match work:
        case CreateTable():
            return {}
        case RollBack():
            return {"instants": list(work.instants)}
        case IngestFiles():
            return {
                "name": work.name,
                "landing": _place_object(work.landing),
                "format": work.file_format.value,
                "files": [[file.path, file.size_bytes, file.modified_ms] for file in work.files],
                "generation": work.generation,
                "operation": work.write_operation,
                "options": dict(work.options),
                "sourceSchema": _columns_object(work.source_schema),
                "transform": work.transform,
                "deleteWhen": work.delete_when,
                "quarantines": work.quarantines,
                "onceNumber": work.once_number,
            }


def _read_work(kind: OperationKind, content: Any) -> Work:
    match kind:
        case OperationKind.CREATE:
            return CreateTable()
        case OperationKind.ROLLBACK:
            return RollBack(_texts(content["instants"]))
        case OperationKind.INGEST:
            return IngestFiles(
                name=str(content["name"]),
                landing=_read_place(content["landing"]),
                file_format=FileFormat(content["format"]),
                files=tuple(
                    LandingFile(str(path), int(size), int(modified))
                    for path, size, modified in content["files"]
                ),
                generation=int(content["generation"]),
                write_operation=str(content["operation"]),
                options=_text_mapping(content["options"]),
                source_schema=_read_columns(content["sourceSchema"]),
                transform=content["transform"],
                delete_when=content["deleteWhen"],
                quarantines=bool(content["quarantines"]),
                once_number=content["onceNumber"],
            )


def _place_object(place: Place) -> dict[str, Any]:
    return {"uri": place.uri, "options": dict(place.options)}


def _read_place(content: Any) -> Place:
    return Place(str(content["uri"]), tuple(sorted(_text_mapping(content["options"]).items())))


def _columns_object(columns: tuple[Column, ...]) -> list[list[Any]]:
    return [[column.name, str(column.type), column.nullable] for column in columns]


def _read_columns(content: Any) -> tuple[Column, ...]:
    return tuple(
        Column(str(name), ColumnType.parse(kind), bool(nullable))
        for name, kind, nullable in content
    )


def _texts(content: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in content)


def _text_mapping(content: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in content.items()}
