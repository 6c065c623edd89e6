"""From a resource to the operations that the engine carries out.

The id of an operation is a digest of everything in it, so the same plan made twice is one
operation, and a changed spec or another set of files makes a new one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from tideline.hudi.index.index_type import IndexType
from tideline.hudi.table.layout.known_layouts import layout_of_new
from tideline.hudi.table.partial_updates import UNAVAILABLE, PartialUpdateMode
from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.ingest.column_type import Column
from tideline.ingest.operation.operation import (
    ICEBERG,
    CatalogEntry,
    CreateTable,
    IngestRange,
    MakeSavepoint,
    Operation,
    RestoreTable,
    RollBack,
    RunService,
    TableTarget,
    Work,
    operation_id,
)
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.source import Range
from tideline_operator.decide.engine_setting import engine_setting
from tideline_operator.decide.service_settings import (
    INLINE_SERVICES_OFF,
    publish_setting,
    service_settings,
    settings_of,
    sync_setting,
    zone_setting,
)
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.resources.iceberg import Catalog
from tideline_operator.resources.ingest import (
    BadFilePolicy,
    BadRowPolicy,
    ColumnSpec,
    Ingest,
)
from tideline_operator.resources.key_generation import KeyGeneration
from tideline_operator.resources.lake_table import LakeTableSpec, TableFormat
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.uniqueness import Uniqueness

_TIMESTAMP_PREFIX = "hoodie.keygen.timebased."


def create_operation(table: ResolvedTable) -> Operation:
    """Create the table as declared."""
    return _operation(table, CreateTable())


def rollback_operation(
    table: ResolvedTable, instants: tuple[str, ...], gone: tuple[str, ...] = ()
) -> Operation:
    """Roll back these instants of dead writers; the processes named in `gone` have ended."""
    return _operation(table, RollBack(instants, gone))


def ingest_operation(
    table: ResolvedTable,
    ingest: Ingest,
    taken: Range,
    *,
    generation: int,
    is_again: bool = False,
) -> Operation:
    """Ingest a range, on top of a checkpoint of `generation`. An empty one only settles in the
    source what was taken in. One that `is_again` begins to read the source again."""
    source = table.sources[ingest.name]
    keeps_rows = ingest.on_bad_row is BadRowPolicy.QUARANTINE
    work = IngestRange(
        name=ingest.name,
        source=source,
        range=taken,
        generation=generation,
        write_operation=ingest.operation.value,
        transform=ingest.transform,
        delete_when=ingest.delete_when,
        quarantines=ingest.on_bad_file is BadFilePolicy.QUARANTINE,
        once_number=once_number(table.spec, ingest) if ingest.trigger.once else None,
        bad_rows_max=ingest.max_bad_rows if keeps_rows else None,
        former_name=ingest.renamed_from or "",
        # What is asked for before there is a table is done with its first copy.
        again_number=again_number(table.spec, ingest) if is_again or not generation else None,
    )
    return _operation(table, work)


def service_operation(table: ResolvedTable, need: ServiceNeed, *, basis: str) -> Operation:
    """Run a service that is due, seeing instants, or metadata, up to `basis`."""
    forced = need.service.whenever_asked if need.rerun is not None else {}
    settings = {**settings_of(table.spec, need.service), **forced}
    work = RunService(need.service, basis, settings, need.resumes, need.rerun)
    return _operation(table, work)


def savepoint_operation(table: ResolvedTable, name: str, instant: str) -> Operation:
    """Keep the table as of the commit `instant` under a name."""
    return _operation(table, MakeSavepoint(name, instant))


def restore_operation(table: ResolvedTable, instant: str, *, basis: str) -> Operation:
    """Go back to the savepoint of `instant`, undoing what came later up to `basis`."""
    return _operation(table, RestoreTable(instant, basis, service_settings(table.spec)))


def once_number(spec: LakeTableSpec, ingest: Ingest) -> int:
    """The number of the `once` run that is asked for; a greater one runs it again."""
    return spec.rerun.get(ingest.name, 0)


def again_number(spec: LakeTableSpec, ingest: Ingest) -> int:
    """The number of the copy that is asked for of a table that has rows."""
    return spec.resync.get(ingest.name, 0)


def is_wanted_again(spec: LakeTableSpec, ingest: Ingest, known: Checkpoint | None) -> bool:
    """Whether the source is to be read again from its start."""
    return known is not None and again_number(spec, ingest) > known.again


def _operation(table: ResolvedTable, work: Work) -> Operation:
    unnamed = Operation("", _target(table), work)
    content = json.dumps(unnamed.to_json_object(), sort_keys=True)
    name = table.resource.metadata.name
    return replace(unnamed, id=operation_id(name, unnamed.kind, content))


def _target(table: ResolvedTable) -> TableTarget:
    spec = table.spec
    if spec.format is TableFormat.ICEBERG:
        name = table.resource.metadata.name.replace("-", "_")
        return TableTarget(
            name,
            table.location,
            spec.record_key,
            spec.partition_by,
            ordering=spec.ordering,
            schema=_columns(spec.schema),
            catalog=catalog_entry(spec.catalog),
            format=ICEBERG,
            format_version=spec.format_version,
        )
    written = _write_properties(spec)
    return TableTarget(
        name=table.resource.metadata.name.replace("-", "_"),
        location=table.location,
        record_key=spec.record_key,
        partition_by=spec.partition_by,
        ordering=spec.ordering,
        table_type=spec.type.value,
        table_version=spec.table_version,
        schema=_columns(spec.schema),
        creation_properties={
            **_filling_up(spec),
            **_key_properties(spec.key_generator),
            **written,
        },
        write_properties={
            **engine_setting(spec),
            **sync_setting(spec),
            **written,
            **INLINE_SERVICES_OFF,
        },
        unique_in_table=spec.uniqueness is Uniqueness.TABLE,
    )


def catalog_entry(catalog: Catalog | None) -> CatalogEntry | None:
    """What opens a table of a catalog; None for a table without one."""
    if catalog is None:
        return None
    return CatalogEntry(catalog.name, catalog.table, tuple(sorted(catalog.properties.items())))


def _filling_up(spec: LakeTableSpec) -> dict[str, str]:
    """Events of Debezium may lack values that did not change: a table that can keeps its own."""
    has_events = any(ingest.source.lacks_values for ingest in spec.ingest)
    can_fill = layout_of_new(spec.table_version).properties.merge_settings
    if not has_events or not can_fill or PARTIAL_UPDATE_MODE in spec.properties:
        return {}
    return {
        PARTIAL_UPDATE_MODE: str(PartialUpdateMode.FILL_UNAVAILABLE),
        UNAVAILABLE_PROPERTY: UNAVAILABLE,
    }


def _write_properties(spec: LakeTableSpec) -> dict[str, str]:
    """Settings of every write; the table stores them as well, for writers of other engines."""
    properties: dict[str, str] = {}
    kind = None if spec.index is None else spec.index.type
    if spec.uniqueness is Uniqueness.TABLE:
        kind = IndexType.GLOBAL_SIMPLE if kind is None else kind.in_table
    if kind is not None:
        properties["hoodie.index.type"] = kind.value
    if spec.index is not None:
        if spec.index.buckets is not None:
            properties["hoodie.bucket.index.num.buckets"] = str(spec.index.buckets)
        if spec.index.update_partition_path is not None:
            moves = str(spec.index.update_partition_path).lower()
            properties[spec.index.type.traits.moves_setting] = moves
    return properties | zone_setting(spec) | publish_setting(spec) | dict(spec.properties)


def _key_properties(keys: KeyGeneration) -> dict[str, str]:
    properties = {}
    if keys.type is not None:
        properties["hoodie.table.keygenerator.type"] = keys.type.value
    if keys.hive_style:
        properties["hoodie.datasource.write.hive_style_partitioning"] = "true"
    if keys.url_encode:
        properties["hoodie.datasource.write.partitionpath.urlencode"] = "true"
    if keys.timestamp is not None:
        time = keys.timestamp
        named = {
            "timestamp.type": time.type.value,
            "output.dateformat": time.output_format,
            "input.dateformat": time.input_format,
            "timezone": time.timezone,
            "timestamp.scalar.time.unit": time.scalar_unit,
        }
        properties |= {f"{_TIMESTAMP_PREFIX}{name}": text for name, text in named.items() if text}
    return properties


def _columns(columns: Sequence[ColumnSpec]) -> tuple[Column, ...]:
    return tuple(Column(column.name, column.type, column.nullable) for column in columns)
