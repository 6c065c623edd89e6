"""The LakeTables of a cluster as rows of the fleet's page, from what is in their status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tideline.report.fleet_page import FleetRow, fleet_page
from tideline.report.level import Level
from tideline.wording import counted, size_text
from tideline_operator.api_objects import Manifest
from tideline_operator.report.table_story import STATUS_COLUMNS, reasons, status_row
from tideline_operator.resources.status import ConditionType, Truth

COLUMNS = ("format", "latest", "waits", "size", "small files", "due", "now")


def cluster_page(tables: Iterable[Manifest]) -> str:
    """The page about all LakeTables that the operator manages."""
    rows = [fleet_row_of(table) for table in tables]
    return fleet_page(
        "Tideline", f"{counted(len(rows), 'LakeTable')} of this cluster", rows, COLUMNS
    )


def fleet_row_of(table: Manifest) -> FleetRow:
    """One LakeTable."""
    seen = dict(zip(STATUS_COLUMNS, status_row(table), strict=True))
    status = table.get("status") or {}
    level, line = _level(table, status, str(seen["due"]))
    files = status.get("table") or {}
    facts = {
        "format": str(seen["format"]),
        "latest": str(seen["latest"]),
        "waits": counted(lag, "file") if (lag := int(status.get("lagFiles") or 0)) else "",
        "size": size_text(int(files.get("bytes") or 0)) if files else "",
        "small files": f"{files.get('smallFilePercent', 0)} %" if files else "",
        "due": str(seen["due"]),
        "now": str(seen["now"]),
    }
    return FleetRow(f"{seen['namespace']}/{seen['name']}", level, line, facts=facts)


def _level(table: Manifest, status: Mapping[str, Any], due: str) -> tuple[Level, str]:
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    paused = conditions.get(ConditionType.PAUSED.value, {})
    if paused.get("status") == Truth.TRUE.value:
        return Level.HEALTHY, "paused"
    wrong = reasons(table)
    if conditions.get(ConditionType.READY.value, {}).get("status") != Truth.TRUE.value:
        first = next((one for one in wrong if one.subject == "Ready"), None) or wrong[0]
        return Level.BROKEN, f"{first.reason}: {first.message}" if first.message else first.reason
    if wrong:
        return Level.DUE, "; ".join(f"{one.subject}: {one.message or one.reason}" for one in wrong)
    return (Level.DUE, f"due: {due}") if due else (Level.HEALTHY, "nothing is due")
