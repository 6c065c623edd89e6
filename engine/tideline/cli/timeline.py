"""`tideline list-instants`: what was done to a table, newest last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import click

from tideline.cli.command import command
from tideline.cli.options import limit_option, table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.archived import ArchivedEntry
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.hudi.timeline.zone import TimelineZone
from tideline.storage.location import StoreLocation
from tideline.wording import counted

_COLUMNS = ("instant", "age", "action", "state", "operation", "files", "inserted", "updated",
            "deleted")  # fmt: skip


@command("list-instants")
@table_options
@click.option("--pending", is_flag=True, help="Only what has not completed.")
@click.option("--archived", is_flag=True, help="What left the active timeline as well.")
@click.option(
    "--action",
    type=click.Choice([str(action) for action in Action]),
    metavar="ACTION",
    help="Only one action, such as commit or rollback.",
)
@click.option("--instant", metavar="INSTANT", help="Only show what became of this instant.")
@limit_option("The newest N instants, or all.")
def list_instants_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    pending: bool,
    archived: bool,
    action: str | None,
    instant: str | None,
    limit: int | None,
) -> None:
    """List the instants of the table at URI: commits, rollbacks and what is still pending.

    A commit that cannot be read is shown as such; tideline check says what helps.

    With --archived older instants follow from the archive, which is read as far as needed.
    """
    table = open_table(StoreLocation.of(uri, storage))
    if instant is not None:
        _print_fate(table, instant, as_json=as_json)
        return
    timeline = table.timeline()
    matching = [
        instant
        for instant in (timeline.pending() if pending else timeline)
        if action is None or str(instant.action) == action
    ]
    shown = matching if limit is None else matching[max(len(matching) - limit, 0) :]
    rows = [_describe(table, instant) for instant in shown]
    total: int | None = len(matching)
    if archived and not pending:
        older, is_all = _older(table, frozenset(timeline), action, limit, len(rows))
        rows = older + rows
        total = len(matching) + len(older) if is_all else None
    if as_json:
        print_json({"instants": rows, "total": total})
        return
    if total == 0:
        print_line("Nothing pending." if pending else "Nothing yet." if action is None else "None.")
        return
    zone, now_ms = table.instants.known_zone(timeline).reading_zone, table.clock.now_ms()
    columns = (*_COLUMNS, "archived") if archived else _COLUMNS
    if rows:
        print_table(columns, [_row(row, zone, now_ms, columns) for row in rows])
    if total is None:
        print_line("Older instants not shown: --limit all shows all.")
    elif len(rows) < total:
        older_ones = counted(total - len(rows), "older instant")
        print_line(f"{older_ones} not shown: --limit all shows all.")


def _print_fate(table: HoodieTable, text: str, *, as_json: bool) -> None:
    """What became of one instant, after an unknown outcome."""
    if not is_instant_time(text):
        raise ConfigError(
            "this is not an instant: give one that `tideline list-instants` lists", value=text
        )
    time = InstantTime(text)
    found = table.timeline().find(time)
    if found is None:
        archived = table.commits.archive().find(frozenset({time})).get(time)
        found = None if archived is None else archived.instant
    if found is None:
        fate, meaning = "absent", "it is not visible and never will be: write again"
    elif found.is_completed:
        fate, meaning = "completed", "it is visible: do not write again"
    else:
        fate = "pending"
        meaning = (
            "it is not visible, but may become so until its writer counts as dead and it is rolled "
            "back: ask again"
        )
    if as_json:
        print_json({"instant": text, "fate": fate})
    else:
        print_line(f"{text} is {fate}: {meaning}.")


def _older(
    table: HoodieTable,
    active: frozenset[Instant],
    action: str | None,
    limit: int | None,
    shown: int,
) -> tuple[list[dict[str, Any]], bool]:
    """Archived instants up to the limit, oldest first, and whether these are all."""
    matching = (
        entry
        for entry in table.commits.archive().completed()
        if entry.instant not in active and action in (None, str(entry.instant.action))
    )
    wanted = None if limit is None else limit - shown
    # One more than is shown says whether there are more.
    entries = list(islice(matching, None if wanted is None else wanted + 1))
    is_all = wanted is None or len(entries) <= wanted
    entries = sorted(entries if is_all else entries[:-1], key=lambda entry: entry.instant)
    return [_describe_archived(entry) for entry in entries], is_all


def _describe_archived(entry: ArchivedEntry) -> dict[str, Any]:
    return _described(entry.instant, entry.commit_metadata) | {"archived": True}


def _describe(table: HoodieTable, instant: Instant) -> dict[str, Any]:
    return _described(instant, lambda: table.commits.read(instant))


def _described(instant: Instant, read: Callable[[], CommitMetadata]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "instant": str(instant.time),
        "action": str(instant.action),
        "state": str(instant.state),
    }
    if instant.is_completed and instant.action in COMMIT_ACTIONS:
        try:
            metadata = read()
        except CorruptTableError as broken:
            return described | {"operation": "unreadable", "error": str(broken)}
        stats = metadata.write_stats
        described |= {
            "operation": metadata.operation_type.lower(),
            "files": len(stats),
            "inserted": sum(stat.num_inserts for stat in stats),
            "updated": sum(stat.num_update_writes for stat in stats),
            "deleted": sum(stat.num_deletes for stat in stats),
        }
    return described


def _row(
    described: dict[str, Any], zone: TimelineZone, now_ms: int, columns: Sequence[str]
) -> list[object]:
    age = _age_text(now_ms - zone.epoch_ms(InstantTime(described["instant"])))
    return [age if column == "age" else described.get(column, "") for column in columns]


def _age_text(age_ms: int) -> str:
    """How long ago, in the unit that fits."""
    seconds = age_ms / 1000
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
