"""The CustomResourceDefinitions, made from the typed resources.

    python -m tools.crds            print them as YAML
    python -m tools.crds FOLDER     write each to a file there

`make crds` writes them to charts/tideline/crds; a test fails while those differ.
"""

from __future__ import annotations

import sys
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from tideline_operator.api_objects import Manifest
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.lake_source import LakeSource
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.metadata import API_VERSION
from tools.openapi import object_schema
from tools.shape_schema import Schema

_GROUP, _VERSION = API_VERSION.split("/")
Kind: TypeAlias = type[LakeTable] | type[LakeCatalog] | type[LakeSource] | type[LakeStore]
_CATEGORY = "tideline"
_AGE: Manifest = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`; those of a `priority` above 0 come with `-o wide`."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0

    def to_json_object(self) -> Manifest:
        column: Manifest = {
            "name": self.name,
            "type": self.type,
            "description": self.description,
            "jsonPath": self.path,
        }
        return {**column, "priority": self.priority} if self.priority else column


_READY = '.status.conditions[?(@.type=="Ready")]'
_TABLE_COLUMNS = (
    PrinterColumn("Format", ".spec.format", "Table format."),
    PrinterColumn("Ready", f"{_READY}.status", "Whether the table is as asked for."),
    PrinterColumn("Latest", ".status.timeline.latest", "Newest completed instant, or snapshot."),
    PrinterColumn("Pending", ".status.timeline.pendingCount", "Pending instants.", type="integer"),
    PrinterColumn(
        "Files", ".status.table.files", "Base or data files of the snapshot.", type="integer"
    ),
    PrinterColumn("Reason", f"{_READY}.reason", "Why it is ready or not."),
    PrinterColumn("Lag", ".status.lagFiles", "Files that wait to be ingested.", type="integer"),
    PrinterColumn(
        "Adopted",
        '.status.conditions[?(@.type=="Adopted")].reason',
        "On what grounds the table is worked on, or not.",
        priority=1,
    ),
    PrinterColumn("Type", ".spec.type", "Hudi table type.", priority=1),
    PrinterColumn("Location", ".spec.location", "Where the table lives.", priority=1),
    PrinterColumn("Catalog", ".spec.catalog.table", "Its name in its catalog.", priority=1),
)
_STORE_COLUMNS = (
    PrinterColumn("Endpoint", ".spec.endpoint", "URL of the S3 endpoint."),
    PrinterColumn("Region", ".spec.region", "Region requests are signed for."),
    PrinterColumn(
        "Ready", f"{_READY}.status", "Whether its buckets are reached and keep their promises."
    ),
    PrinterColumn("Reason", f"{_READY}.reason", "Why it is ready or not."),
)
_MANY_TABLES_COLUMNS = (
    PrinterColumn("Ready", f"{_READY}.status", "Whether its tables were listed."),
    PrinterColumn("Reason", f"{_READY}.reason", "Why it is ready or not."),
    PrinterColumn("Tables", ".status.found", "Tables that it has.", type="integer"),
    PrinterColumn("Maintained", ".status.maintained", "Those it maintains.", type="integer"),
    PrinterColumn("Excluded", ".status.excluded", "Those left out by pattern.", type="integer"),
    PrinterColumn("Late", ".status.late", "Those with services that wait.", type="integer"),
    PrinterColumn("Failing", ".status.failing", "Those that are not ready.", type="integer"),
    PrinterColumn("Looked", ".status.lastLook", "When it was listed last.", type="date"),
    PrinterColumn("Location", ".spec.location", "The folder of its tables.", priority=1),
)
_CATALOG_COLUMNS = (
    *_MANY_TABLES_COLUMNS,
    PrinterColumn("Catalog", ".spec.catalog.uri", "Address of the catalog.", priority=1),
)
_SOURCE_COLUMNS = (
    *_MANY_TABLES_COLUMNS,
    PrinterColumn("Slot", ".spec.postgres.slot", "Slot of its tables.", priority=1),
)


def custom_resource_definitions() -> tuple[Manifest, ...]:
    """All of them, ready to be applied."""
    return (
        _definition(LakeCatalog, short_name="lc", columns=_CATALOG_COLUMNS),
        _definition(LakeSource, short_name="lsrc", columns=_SOURCE_COLUMNS),
        _definition(LakeStore, short_name="ls", columns=_STORE_COLUMNS),
        _definition(LakeTable, short_name="lt", columns=_TABLE_COLUMNS),
    )


def file_name(definition: Manifest) -> str:
    """The file in charts/tideline/crds that holds `definition`."""
    return f"{definition['metadata']['name']}.yaml"


def as_yaml(*manifests: Manifest) -> str:
    """Manifests as a YAML stream, members in the order they have here."""
    return "---\n".join(
        yaml.safe_dump(item, sort_keys=False, width=100, allow_unicode=True) for item in manifests
    )


def _definition(kind: Kind, *, short_name: str, columns: tuple[PrinterColumn, ...]) -> Manifest:
    singular = kind.KIND.lower()
    plural = f"{singular}s"
    version: Manifest = {
        "name": _VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [*(column.to_json_object() for column in columns), _AGE],
        "schema": {"openAPIV3Schema": _resource_schema(kind)},
    }
    if "status" in typing.get_type_hints(kind):
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{_GROUP}",
            "labels": {"app.kubernetes.io/name": "tideline", "app.kubernetes.io/component": "crd"},
        },
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.KIND,
                "listKind": f"{kind.KIND}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [short_name],
                "categories": [_CATEGORY],
            },
            "versions": [version],
        },
    }


def _resource_schema(kind: Kind) -> Schema:
    schema = object_schema(kind, owner=kind.KIND)
    members = schema["properties"]
    # Kubernetes has the schema of metadata, and every object has it.
    members["metadata"] = {"type": "object"}
    schema["required"] = ["spec"]
    status = typing.get_type_hints(kind).get("status")
    if status is not None:
        members["status"] = object_schema(status, owner=kind.KIND, has_defaults=False)
    return schema


def main(arguments: list[str]) -> None:
    definitions = custom_resource_definitions()
    if not arguments:
        sys.stdout.write(as_yaml(*definitions))
    for definition in definitions if arguments else ():
        Path(arguments[0], file_name(definition)).write_text(as_yaml(definition), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
