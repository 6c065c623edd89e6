"""Which services of a table of either format are due. Pure."""

from __future__ import annotations

from tideline_operator.decide.observed import Observed
from tideline_operator.decide.service_triggers import (
    ServiceNeed,
    iceberg_needs,
    newest_instant,
    service_needs,
)
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.status import LakeTableStatus


def needs_of(
    spec: LakeTableSpec, status: LakeTableStatus, observed: Observed, now_ms: int
) -> tuple[ServiceNeed, ...]:
    """For every wanted service, whether it is due; nothing where there is no table."""
    if observed.iceberg is not None:
        return iceberg_needs(spec, status, observed.iceberg, now_ms)
    if observed.table is not None:
        return service_needs(spec, status, observed.table, now_ms)
    return ()


def basis_of(observed: Observed) -> str:
    """What a plan made now is based on: the newest instant, or metadata file."""
    if observed.iceberg is not None:
        return observed.iceberg.metadata_location
    return "" if observed.table is None else newest_instant(observed.table.history)
