"""`tideline timeline`: what was done to a table, newest last."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.storage.location import StoreLocation
from tideline.table.hoodie_table import HoodieTable
from tideline.timeline.instant import COMMIT_ACTIONS, Instant

_COLUMNS = ("instant", "age", "action", "state", "operation", "files", "inserted", "updated",
            "deleted")  # fmt: skip


@click.command("timeline")
@table_options
@click.option("--pending", is_flag=True, help="Only what has not completed.")
@click.option("--action", help="Only one action, such as commit or rollback.")
@click.option("--limit", default=20, show_default=True, help="The newest N instants; 0 for all.")
def timeline_command(
    uri: str, storage: dict[str, str], as_json: bool, pending: bool, action: str | None, limit: int
) -> None:
    """List the instants of the table at URI: commits, rollbacks and what is still pending."""
    table = HoodieTable.open(StoreLocation.of(uri, storage))
    timeline = table.timeline()
    matching = [
        instant
        for instant in (timeline.pending() if pending else timeline)
        if action is None or str(instant.action) == action
    ]
    shown = matching[-limit:] if limit > 0 else matching
    rows = [_describe(table, instant) for instant in shown]
    if as_json:
        print_json({"instants": rows, "total": len(matching)})
        return
    if not rows:
        print_line("Nothing pending." if pending else "Nothing yet.")
        return
    now_ms = table.clock.now_ms()
    print_table(_COLUMNS, [_row(row, now_ms) for row in rows])
    if len(shown) < len(matching):
        print_line(f"{len(matching) - len(shown)} older instants not shown: --limit 0 shows all.")


def _describe(table: HoodieTable, instant: Instant) -> dict[str, Any]:
    described: dict[str, Any] = {
        "instant": str(instant.time),
        "action": str(instant.action),
        "state": str(instant.state),
    }
    if instant.is_completed and instant.action in COMMIT_ACTIONS:
        metadata = table.timelines.read_commit(instant)
        stats = metadata.write_stats
        described |= {
            "operation": metadata.operation_type.lower(),
            "files": len(stats),
            "inserted": sum(stat.num_inserts for stat in stats),
            "updated": sum(stat.num_update_writes for stat in stats),
            "deleted": sum(stat.num_deletes for stat in stats),
        }
    return described


def _row(described: dict[str, Any], now_ms: int) -> list[object]:
    age = _age_text(described["instant"], now_ms)
    return [age if column == "age" else described.get(column, "") for column in _COLUMNS]


def _age_text(instant: str, now_ms: int) -> str:
    """How long ago, in the unit that fits; instants of our tables are UTC."""
    moment = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    seconds = now_ms / 1000 - moment.timestamp()
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
