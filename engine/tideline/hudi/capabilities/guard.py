"""The guard of everything that changes an open table: may this be done, as the table is now?

Another engine may have changed the properties, or written in another zone, since the table was
opened. The holder of the table lock checks here, by the rules that made the capabilities. Buckets
are left to the writer's index and the services (tideline.hudi.write.index_choice): they keep what
they recognised.
"""

from __future__ import annotations

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.refusal import Refusal
from tideline.hudi.capabilities.rules import Facts, refusal_of
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline


def admit(table: HoodieTable, permission: Permission) -> ActiveTimeline:
    """The timeline as it is now, for an operation with this permission; the properties are read
    again.

    Raises UnsupportedTableError where the table is not for it, ConfigError where something has to
    be declared first.
    """
    table.properties.reload()
    require_by_properties(table, permission)
    timeline = table.timeline()
    _require(table, permission, facts_of(table, permission, timeline))
    return timeline


def require_by_properties(table: HoodieTable, permission: Permission) -> None:
    """Raise UnsupportedTableError where the properties, as they were read, speak against it."""
    _require(table, permission, Facts(table.config))


def require(table: HoodieTable, permission: Permission) -> None:
    """Raise as `admit`, listing the timeline only where something of it matters."""
    table.properties.reload()
    require_by_properties(table, permission)
    by_zone = permission.makes_instants and not table.instants.zone_is_declared
    if by_zone or permission.may_write_rows:
        _require(table, permission, facts_of(table, permission, table.timeline()))


def facts_of(table: HoodieTable, permission: Permission, timeline: ActiveTimeline) -> Facts:
    """What speaks for or against the permission, but for buckets."""
    schema_json = table.schemas.newest_json(timeline) if permission.may_write_rows else None
    return Facts(table.config, table.instants.known_zone(timeline), schema_json=schema_json)


def refused_by_properties(table: HoodieTable, permission: Permission) -> Refusal | None:
    """The same as a value."""
    return refusal_of(permission, Facts(table.config))


def _require(table: HoodieTable, permission: Permission, facts: Facts) -> None:
    refusal = refusal_of(permission, facts)
    if refusal is not None:
        raise refusal.error(table.uri)
