"""Operations: what a planner decided, as one JSON value that any process can carry out.

`tideline execute --operation FILE` and the local worker read an `Operation` and answer with an
`OperationResult`. The id follows from what the operation does, so the same plan made twice is the
same operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import Any

from tideline.errors import ConfigError
from tideline.hudi.services import registry
from tideline.hudi.services.registry import ROLLBACK
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.iceberg.services import registry as iceberg_registry
from tideline.ingest.column_type import Column, columns_object, read_columns
from tideline.ingest.location import Location
from tideline.ingest.sources.kinds import kind_of_stored, stored_kind
from tideline.ingest.sources.source import Declared, Range
from tideline.services.service import Service

HUDI = "hudi"
ICEBERG = "iceberg"
"""Formats of tables."""
_VERSION = 1
_NAME_CHARACTERS = 32
_DIGEST_BYTES = 6


def _services() -> tuple[Service, ...]:
    """The services that operations run; rolling back has a kind of its own."""
    hudi = (service for service in registry.all_services() if service != ROLLBACK)
    return (*hudi, *iceberg_registry.all_services())


class OperationKind(Enum):
    """What an operation does: one kind for every table service, and those named here.

    The value is its name in files, statuses and labels.
    """

    CREATE = "create"
    INGEST = "ingest"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    # What a class body defines are the members of an enum: a new service needs no line here.
    vars().update({candidate.name.upper(): candidate.operation_kind for candidate in _services()})

    @classmethod
    def of(cls, service: Service) -> OperationKind:
        """The kind of operation that runs a service."""
        return cls(service.operation_kind)

    @property
    def service(self) -> Service | None:
        """The table service an operation of this kind runs, if it runs one."""
        return _SERVICE_OF.get(self)

    def __str__(self) -> str:
        return self.value


_SERVICE_OF: Mapping[OperationKind, Service] = {
    OperationKind.of(candidate): candidate for candidate in _services()
}


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table of an Iceberg catalog: the catalog's name and properties, without any
    credential, and the table's `namespace.name` in it."""

    catalog: str
    table: str
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TableTarget:
    """The table: `creation_properties` are kept in it, `write_properties` go with every write.

    An Iceberg table that a catalog keeps has a `catalog`, and a location without a URI, whose
    options are those of its files; its `partition_by` has terms such as `day(ts)`.
    `unique_in_table`: a table that exists is to keep the global index that `write_properties` name.
    `format_version` is that of an Iceberg table, None where none is declared.
    """

    name: str
    location: Location
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    table_type: str = "COPY_ON_WRITE"
    schema: tuple[Column, ...] = ()
    creation_properties: Mapping[str, str] = field(default_factory=dict)
    write_properties: Mapping[str, str] = field(default_factory=dict)
    catalog: CatalogEntry | None = None
    unique_in_table: bool = False
    table_version: int = TABLE_VERSION
    format: str = HUDI
    format_version: int | None = None


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create the table with its declared schema."""


@dataclass(frozen=True, slots=True)
class RollBack:
    """Roll back what dead writers left; `instants` are those seen when planning.

    `gone` are the writers of some of them, by the names in their heartbeats: the planner found that
    these processes have ended.
    """

    instants: tuple[str, ...]
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IngestRange:
    """Take a range of a source into the table, if its checkpoint is still at `generation`.

    `bad_rows_max` is how many rows of a part may be set aside one by one, None for none of any; a
    part with more of them is a bad one, which `quarantines` sets aside whole. `former_name` is what
    the ingest was called before. `once_number` is the number of the `once` run this belongs to,
    None for other triggers. Its range begins to read the source again, which was asked for by
    `again_number`; a first range does that as well. With an empty range there is only something to
    settle in the source. One that `is_dry` only says what it would do.
    """

    name: str
    source: Declared
    range: Range
    generation: int
    write_operation: str = "upsert"
    transform: str | None = None
    delete_when: str | None = None
    quarantines: bool = True
    once_number: int | None = None
    bad_rows_max: int | None = None
    former_name: str = ""
    is_dry: bool = False
    again_number: int | None = None

    @property
    def has_sql(self) -> bool:
        """Whether rows are what Spark makes of those of the source."""
        return self.transform is not None or self.delete_when is not None


@dataclass(frozen=True, slots=True)
class RunService:
    """Run a table service once, with `settings` over the table's own.

    `basis` is the newest instant, or metadata file, the plan knew of, `resumes` are plans of dead
    runs it found. `rerun` is the number of the run a person asked for, None when the trigger did.
    """

    service: Service
    basis: str
    settings: Mapping[str, str] = field(default_factory=dict)
    resumes: tuple[str, ...] = ()
    rerun: int | None = None


@dataclass(frozen=True, slots=True)
class MakeSavepoint:
    """Keep the table as of the completed commit `instant`, under a name."""

    name: str
    instant: str


@dataclass(frozen=True, slots=True)
class RestoreTable:
    """Take the table back to the savepoint of `instant`; `basis` is the newest instant undone."""

    instant: str
    basis: str
    settings: Mapping[str, str] = field(default_factory=dict)


Work = CreateTable | IngestRange | RollBack | RunService | MakeSavepoint | RestoreTable


_KIND_OF: Mapping[type, OperationKind] = {
    CreateTable: OperationKind.CREATE,
    IngestRange: OperationKind.INGEST,
    RollBack: OperationKind.ROLLBACK,
    MakeSavepoint: OperationKind.SAVEPOINT,
    RestoreTable: OperationKind.RESTORE,
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One run of work on one table.

    `writer` names the process that carries it out, where others can know when that is gone; it is
    no part of the plan.
    """

    id: str
    table: TableTarget
    work: Work
    writer: str = ""

    @property
    def ingest(self) -> IngestRange:
        """Its work, of an operation that is an ingest."""
        assert isinstance(self.work, IngestRange)
        return self.work

    @property
    def kind(self) -> OperationKind:
        if isinstance(self.work, RunService):
            return OperationKind.of(self.work.service)
        return _KIND_OF[type(self.work)]

    @property
    def subject(self) -> str:
        """Name of the ingest or of the savepoint, or nothing."""
        return self.work.name if isinstance(self.work, IngestRange | MakeSavepoint) else ""

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.kind} {self.subject}".strip()

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
                found = content["version"]
                raise ConfigError(
                    f"this operation has version {found}, this release knows {_VERSION}"
                )
            work = _read_work(OperationKind(content["kind"]), content["work"])
            return cls(str(content["id"]), _read_table(content["table"]), work)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"this is not an operation: {type(error).__name__} {error}",
                value=str(content)[:200],
            ) from error


def operation_id(table_name: str, kind: OperationKind, *basis: object) -> str:
    """An id from what the operation does, fit to be the name of a Kubernetes Job.

    `table_name` only makes it readable; `basis` must distinguish operations.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in (table_name, kind.value, *basis):
        text = str(part).encode()
        digest.update(len(text).to_bytes(8, "big") + text)
    words = "".join(letter if letter.isalnum() else "-" for letter in table_name.lower())
    readable = words.encode("ascii", "ignore").decode()[:_NAME_CHARACTERS].strip("-") or "table"
    what = kind.value.replace("_", "-")
    return f"{readable}-{what}-{digest.hexdigest()}"


def writer_name(operation_id: str, pod_uid: str) -> str:
    """What the heartbeats of an operation's driver say: there is one such process, ever."""
    return f"{operation_id}/{pod_uid}"


def parse_writer_name(name: str) -> tuple[str, str] | None:
    """Operation and pod of a writer, None where it is not one of ours in a pod."""
    operation_id, slash, pod_uid = name.partition("/")
    return (operation_id, pod_uid) if operation_id and slash and pod_uid else None


def _table_object(table: TableTarget) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": table.name,
        "location": table.location.to_json_object(),
        "recordKey": list(table.record_key),
        "partitionBy": list(table.partition_by),
        "ordering": list(table.ordering),
        "tableType": table.table_type,
        "tableVersion": table.table_version,
        "schema": columns_object(table.schema),
        "creationProperties": dict(table.creation_properties),
        "writeProperties": dict(table.write_properties),
    }
    if table.unique_in_table:
        content["uniqueInTable"] = True
    if table.format != HUDI:
        content["format"] = table.format
    if table.format_version is not None:
        content["formatVersion"] = table.format_version
    if table.catalog is not None:
        content["catalog"] = {
            "name": table.catalog.catalog,
            "table": table.catalog.table,
            "properties": dict(table.catalog.properties),
        }
    return content


def _read_table(content: Any) -> TableTarget:
    return TableTarget(
        name=str(content["name"]),
        location=Location.from_json_object(content["location"]),
        record_key=_texts(content["recordKey"]),
        partition_by=_texts(content["partitionBy"]),
        ordering=_texts(content["ordering"]),
        table_type=str(content["tableType"]),
        schema=read_columns(content["schema"]),
        creation_properties=_text_mapping(content["creationProperties"]),
        write_properties=_text_mapping(content["writeProperties"]),
        catalog=_read_catalog(content["catalog"]) if "catalog" in content else None,
        unique_in_table=bool(content.get("uniqueInTable", False)),
        table_version=int(content["tableVersion"]),
        format=str(content.get("format", HUDI)),
        format_version=int(content["formatVersion"]) if "formatVersion" in content else None,
    )


def _read_catalog(content: Any) -> CatalogEntry:
    properties = tuple(sorted(_text_mapping(content["properties"]).items()))
    return CatalogEntry(str(content["name"]), str(content["table"]), properties)


def _work_object(work: Work) -> dict[str, Any]:
    match work:
        case CreateTable():
            return {}
        case RollBack():
            return {"instants": list(work.instants), "gone": list(work.gone)}
        case RunService():
            resumes = {"resumes": list(work.resumes)} if work.service.leaves_plans else {}
            settings = work.service.stored_settings(work.settings)
            return {"basis": work.basis, **settings, **resumes, "rerun": work.rerun}
        case MakeSavepoint():
            return {"name": work.name, "instant": work.instant}
        case RestoreTable():
            return {
                "instant": work.instant,
                "basis": work.basis,
                "settings": dict(work.settings),
            }
        case IngestRange():
            return {
                **stored_kind(work.source.kind),
                "name": work.name,
                **work.source.stored(),
                **work.range.stored(),
                "generation": work.generation,
                "operation": work.write_operation,
                "transform": work.transform,
                "deleteWhen": work.delete_when,
                "quarantines": work.quarantines,
                "onceNumber": work.once_number,
                "badRowsMax": work.bad_rows_max,
                "formerName": work.former_name,
                **({"dryRun": True} if work.is_dry else {}),
                **({} if work.again_number is None else {"againNumber": work.again_number}),
            }


def _read_work(kind: OperationKind, content: Any) -> Work:
    service = kind.service
    if service is not None:
        return RunService(
            service=service,
            basis=str(content["basis"]),
            settings=service.read_settings(content),
            resumes=_texts(content.get("resumes", ())),
            rerun=None if content["rerun"] is None else int(content["rerun"]),
        )
    match kind:
        case OperationKind.CREATE:
            return CreateTable()
        case OperationKind.ROLLBACK:
            return RollBack(_texts(content["instants"]), _texts(content.get("gone", ())))
        case OperationKind.SAVEPOINT:
            return MakeSavepoint(str(content["name"]), str(content["instant"]))
        case OperationKind.RESTORE:
            settings = _text_mapping(content["settings"])
            return RestoreTable(str(content["instant"]), str(content["basis"]), settings)
        case OperationKind.INGEST:
            source = kind_of_stored(content)
            return IngestRange(
                name=str(content["name"]),
                source=source.declared.from_stored(content),
                range=source.range.from_stored(content),
                generation=int(content["generation"]),
                write_operation=str(content["operation"]),
                transform=content["transform"],
                delete_when=content["deleteWhen"],
                quarantines=bool(content["quarantines"]),
                once_number=content["onceNumber"],
                bad_rows_max=content.get("badRowsMax"),
                former_name=str(content.get("formerName", "")),
                is_dry=bool(content.get("dryRun", False)),
                again_number=content.get("againNumber"),
            )
    raise ConfigError(f"no work of kind {kind} is known")


def _texts(content: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in content)


def _text_mapping(content: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in content.items()}
