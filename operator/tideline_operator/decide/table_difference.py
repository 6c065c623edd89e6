"""How a table that is there differs from its spec in what cannot be changed. Pure."""

from __future__ import annotations

from tideline_operator.decide.observed import ObservedTable
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.resources.lake_table import LakeTableSpec


def difference_of(spec: LakeTableSpec, table: ObservedTable | ObservedIceberg | None) -> str | None:
    """A sentence about the first difference; None where there is none, or no table."""
    if isinstance(table, ObservedTable):
        return _of_hudi(spec, table)
    return None if table is None else _of_iceberg(spec, table)


def _of_hudi(spec: LakeTableSpec, table: ObservedTable) -> str | None:
    keys = spec.key_generator
    fields = (
        ("recordKey", list(spec.record_key), list(table.record_key)),
        ("partitionBy", _without_kinds(spec.partition_by), _without_kinds(table.partition_by)),
        ("ordering", list(spec.ordering), list(table.ordering)),
        ("type", spec.type.value, table.table_type),
        ("keyGenerator.hiveStyle", keys.hive_style, table.hive_style),
        ("keyGenerator.urlEncode", keys.url_encode, table.url_encode),
    )
    for field, wanted, found in fields:
        if wanted != found:
            return (
                f"spec.{field} is {wanted}, but the table at the location was created with {found};"
                " this cannot be changed: correct the spec or give another location"
            )
    return None


def _of_iceberg(spec: LakeTableSpec, table: ObservedIceberg) -> str | None:
    wanted, found = spec.format_version, table.metadata.format_version
    if wanted is None or wanted >= found:
        return None
    return (
        f"spec.formatVersion is {wanted}, but the table is of version {found}, and no table goes "
        f"back to an earlier one: give {found}, or leave it out"
    )


def _without_kinds(columns: tuple[str, ...]) -> list[str]:
    return [column.partition(":")[0] for column in columns]
