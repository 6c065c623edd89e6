"""The ingests that `tideline verify` and others are about, found in files of LakeTables."""

from __future__ import annotations

import os
from pathlib import Path

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline_operator.decide.planned_operation import ingest_operation
from tideline_operator.resources.loading import load_resources
from tideline_operator.resources.resolved import ResolvedTable


def declared_ingest(path: Path, name: str | None) -> tuple[Operation, ...]:
    """The ingests of the table `name`, a name or a location, as operations that take nothing in.

    Raises ConfigError where no table or more than one is meant, and where it has none.
    """
    resources = load_resources([path], ca_bundle=os.environ.get("AWS_CA_BUNDLE"))
    table = _table_named(name, resources.tables)
    if not table.spec.ingest:
        raise ConfigError("the LakeTable has no ingest, and so no source", value=table.name)
    return tuple(
        ingest_operation(table, ingest, table.sources[ingest.name].no_range(), generation=0)
        for ingest in table.spec.ingest
    )


def _table_named(name: str | None, tables: tuple[ResolvedTable, ...]) -> ResolvedTable:
    found = [table for table in tables if name is None or _is_called(name, table)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(table.name for table in tables)
    if not found:
        raise ConfigError(f"no LakeTable has this name or location; there are {known}", value=name)
    raise ConfigError(f"several LakeTables may be meant: name one of {known}", value=name)


def _is_called(name: str, table: ResolvedTable) -> bool:
    location = table.location.uri.removeprefix("file://").rstrip("/")
    place = name if "://" in name else str(Path(name).resolve())
    names = (table.name, table.resource.metadata.name, table.location.uri.rstrip("/"))
    return name.rstrip("/") in names or place.removeprefix("file://").rstrip("/") == location
