"""The ingests that `tideline verify` and others are about, found in files of LakeTables and
LakeSources. Which tables a LakeSource has is what its server says."""

from __future__ import annotations

import os
from pathlib import Path

from tideline.clock import SystemClock
from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.storage.egress.client_files import ClientFiles
from tideline_operator.decide.planned_operation import ingest_operation
from tideline_operator.local.source_tables import SourceTables
from tideline_operator.resources.loading import ResourceSet, load_resources
from tideline_operator.resources.resolved import ResolvedTable


def declared_ingest(path: Path, name: str | None) -> tuple[Operation, ...]:
    """The ingests of the table `name`, a name or a location, as operations that take nothing in.
    One of a LakeSource may have the name that it has on the server.

    Raises ConfigError where no table or more than one is meant, and where it has none, and
    StorageUnavailableError where the server of a LakeSource cannot be reached.
    """
    resources = load_resources(
        [path],
        ca_bundle=os.environ.get("AWS_CA_BUNDLE"),
        client_files=ClientFiles.of_environment(os.environ),
    )
    table = _table_named(name, _tables(resources, name))
    if not table.spec.ingest:
        raise ConfigError("the LakeTable has no ingest, and so no source", value=table.name)
    return tuple(
        ingest_operation(table, ingest, table.sources[ingest.name].no_range(), generation=0)
        for ingest in table.spec.ingest
    )


def _tables(resources: ResourceSet, name: str | None) -> tuple[ResolvedTable, ...]:
    """Those declared; and those of LakeSources, unless it is clear without them which is meant."""
    declared = resources.tables
    if name is not None and any(_is_called(name, table) for table in declared):
        return declared
    left: list[str] = []
    found = SourceTables(SystemClock())
    found.look(resources.sources, declared, left.append)
    for problem in found.problems:
        raise problem
    for line in left:
        if name is not None and f": {name} is left: " in line:
            raise ConfigError(line)
    return (*declared, *found.tables)


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
    theirs = (
        source.table
        for source in table.sources.values()
        if isinstance(source, DeclaredPostgres) and source.is_shared
    )
    names = (table.name, table.resource.metadata.name, table.location.uri.rstrip("/"), *theirs)
    return name.rstrip("/") in names or place.removeprefix("file://").rstrip("/") == location
