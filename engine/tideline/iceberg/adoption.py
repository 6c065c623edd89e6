"""The report on an Iceberg table before anything in it is changed, read from its newest metadata.

Changes nothing. Its JSON is a public form: names stay, new ones may be added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tideline.errors import UnsupportedTableError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import METADATA_PATH
from tideline.iceberg.services.registry import IcebergService, all_services
from tideline.iceberg.table.open_table import IcebergTable


@dataclass(frozen=True, slots=True)
class IcebergAdoptionReport:
    """What is to be known of an Iceberg table; `refusal` says why nothing of it can be read."""

    uri: str
    metadata: TableMetadata | None = None
    refusal: str | None = None
    in_catalog: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether nothing may be done with the table."""
        return self.refusal is not None

    @property
    def remedy(self) -> str | None:
        """What helps where the table is refused, if anything does."""
        if self.refusal is None or self.in_catalog or "catalog" not in self.refusal:
            return None
        return "name it as its catalog does, and the catalog: tideline iceberg show --help"

    def may(self, service: IcebergService) -> str | None:
        """None where the maintenance may be done, else why not."""
        if self.metadata is None:
            return self.refusal
        properties = self.metadata.properties
        if properties.get(METADATA_PATH) and not self.in_catalog:
            return (
                f"{METADATA_PATH} puts its metadata elsewhere, and a table without a catalog "
                "keeps it in its own folder"
            )
        return service.refusal(self.metadata)

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            "format": "iceberg",
            "uri": self.uri,
            **({} if self.metadata is None else _facts(self.metadata)),
            "refused": self.is_refused,
            "reason": self.refusal,
            "remedy": self.remedy,
            "operations": [
                {
                    "name": service.operation_kind,
                    "may": self.may(service) is None,
                    "reason": self.may(service),
                }
                for service in all_services()
            ],
            "next": [
                {"why": why, "command": command, "arguments": []}
                for why, command in self.next_steps
            ],
        }

    @property
    def next_steps(self) -> tuple[tuple[str, str], ...]:
        """What to do next: why, and the command."""
        if self.is_refused:
            return ()
        return (
            ("see its schema and how much there is", "iceberg show"),
            ("see what a rewrite of its files would gain, which changes nothing", "iceberg plan"),
        )


def read_iceberg_dossier(
    uri: str, open_table: Callable[[], IcebergTable], *, in_catalog: bool
) -> IcebergAdoptionReport:
    """The adoption report of the table that `open_table` opens; `uri` is how people name it.

    One that is refused says why. Raises ObjectNotFoundError where no table is, CorruptTableError.
    """
    try:
        metadata = open_table().metadata
    except UnsupportedTableError as refused:
        return IcebergAdoptionReport(uri, refusal=refused.message, in_catalog=in_catalog)
    return IcebergAdoptionReport(uri, metadata, in_catalog=in_catalog)


def _facts(metadata: TableMetadata) -> dict[str, Any]:
    snapshot = metadata.snapshot()
    spec = metadata.spec()
    summary = {} if snapshot is None else snapshot.summary
    return {
        "format_version": metadata.format_version,
        "uuid": metadata.table_uuid,
        "location": metadata.location,
        "schemas": len(metadata.schemas),
        "columns_by": "ids",
        "partition_by": [
            f"{field.transform}({metadata.schema().name_of(field.source_id)})"
            for field in spec.fields
        ],
        "snapshots": len(metadata.snapshots),
        "refs": sorted(metadata.refs),
        "current_snapshot": None if snapshot is None else str(snapshot.snapshot_id),
        "data_files": _number(summary.get("total-data-files")),
        "delete_files": _number(summary.get("total-delete-files")),
        "size_bytes": _number(summary.get("total-files-size")),
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
