"""The LakeTables of a cluster as rows of the fleet's page, from what is in their status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tideline.report.fleet_page import FleetRow, fleet_page
from tideline.report.html import ago
from tideline.report.level import Level
from tideline.report.time_axis import at_utc
from tideline.wording import counted, size_text
from tideline_operator.api_objects import Manifest
from tideline_operator.report.table_story import STATUS_COLUMNS, due_services, reasons, status_row
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import ConditionStatus, ConditionType

COLUMNS = ("format", "latest", "waits", "oldest", "size", "small files", "pod hours", "now")
DUE = "due: "
MS_PER_HOUR = 3_600_000


def cluster_page(tables: Iterable[Manifest], now_ms: int) -> str:
    """The page about all LakeTables that the operator manages; each row leads to its own page."""
    rows = [fleet_row_of(table, now_ms) for table in tables]
    return fleet_page(
        "Tideline", f"{counted(len(rows), 'LakeTable')} of this cluster", rows, COLUMNS
    )


def fleet_row_of(table: Manifest, now_ms: int) -> FleetRow:
    """One LakeTable."""
    seen = dict(zip(STATUS_COLUMNS, status_row(table), strict=True))
    status = table.get("status") or {}
    level, line = level_of(table)
    files = status.get("table") or {}
    pod_ms = sum(int(item.get("podMs") or 0) for item in (status.get("spent") or {}).values())
    name = f"{seen['namespace']}/{seen['name']}"
    facts = {
        "format": str(seen["format"]),
        "latest": str(seen["latest"]),
        "waits": waiting_text(status),
        "oldest": _oldest(status, now_ms),
        "size": size_text(int(files.get("bytes") or 0)) if files else "",
        "small files": f"{files.get('smallFilePercent', 0)} %" if files else "",
        "pod hours": f"{pod_ms / MS_PER_HOUR:,.1f}" if pod_ms else "",
        "now": str(seen["now"]),
    }
    reason = line.partition(":")[0] if level is Level.BROKEN else ""
    return FleetRow(name, level, line, f"tables/{name}", facts, reason)


def waiting_text(status: Mapping[str, Any]) -> str:
    """What waits to be ingested; empty where nothing does."""
    ingests = (status.get("ingest") or {}).values()
    if records := sum(int(ingest.get("lagRecords") or 0) for ingest in ingests):
        return counted(records, "record")
    return counted(lag, "file") if (lag := int(status.get("lagFiles") or 0)) else ""


def level_of(table: Manifest) -> tuple[Level, str]:
    """How a LakeTable is, and why."""
    status = table.get("status") or {}
    due = ", ".join(due_services(table))
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    paused = conditions.get(ConditionType.PAUSED.value, {})
    if paused.get("status") == ConditionStatus.TRUE.value:
        return Level.HEALTHY, "paused"
    wrong = reasons(table)
    if conditions.get(ConditionType.READY.value, {}).get("status") != ConditionStatus.TRUE.value:
        first = next((reason for reason in wrong if reason.subject == "Ready"), None) or wrong[0]
        return Level.BROKEN, f"{first.reason}: {first.message}" if first.message else first.reason
    if wrong:
        return Level.DUE, "; ".join(
            f"{reason.subject}: {reason.message or reason.reason}" for reason in wrong
        )
    return (Level.DUE, f"{DUE}{due}") if due else (Level.HEALTHY, "nothing is due")


def _oldest(status: Mapping[str, Any], now_ms: int) -> str:
    """The time of the oldest file or record that waits."""
    ingests = (status.get("ingest") or {}).values()
    times = [ingest.get(name) for ingest in ingests for name in ("oldestFileAt", "oldestRecordAt")]
    landed = [Timestamp.parse(at).ms for at in times if at]
    return f"{at_utc(min(landed))}, {ago(now_ms - min(landed))}" if landed else ""
