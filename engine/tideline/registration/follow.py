"""Syncing when somebody asks for it, and after commits, where a table or a write asks for it.

A commit has taken place when it is registered, so what fails here is said and not raised: the next
commit, or `tideline sync`, makes up for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import SYNC
from tideline.registration.kinds import open_metastore
from tideline.registration.outcome import Synced, TableSynced
from tideline.registration.sync import sync_table
from tideline.registration.target import SyncTarget, setting_name, targets_in
from tideline.wording import counted

_log = logging.getLogger(__name__)
_FAILED = "failed, the next commit or `tideline sync` makes up for it"


def sync_after_commit(table: HoodieTable, given: Mapping[str, str]) -> tuple[str, ...]:
    """Register what was committed where the table's properties, and settings over them, say; in
    words what came of it, nothing where nothing but the newest instant was new."""
    try:
        targets = targets_in(table.config, given)
    except Exception as error:
        return (_failure("registering the table", error),)
    return tuple(note for target in targets if (note := _note(table, target)) is not None)


def sync_targets(
    table: HoodieTable,
    targets: Iterable[SyncTarget],
    *,
    everything: bool = False,
    dry_run: bool = False,
) -> tuple[Synced, ...]:
    """Register the table in each; `everything` and `dry_run` as in `sync_table`, raises as that."""
    return tuple(
        sync_table(
            table, open_metastore(target), target.name, everything=everything, dry_run=dry_run
        )
        for target in targets
    )


def remember_targets(table: HoodieTable, targets: Iterable[SyncTarget]) -> None:
    """Keep in the table that its commits are registered there; no address is kept."""
    kept = {target.kind: target for target in (*targets_in(table.config), *targets)}
    properties = {SYNC: ",".join(kept)}
    for kind, target in kept.items():
        properties[setting_name(kind, "database")] = target.name.database
        properties[setting_name(kind, "name")] = target.name.name
    table.properties.set(properties)


def forget_targets(table: HoodieTable) -> None:
    """The table's commits are no longer registered; the names stay for the next time."""
    table.properties.set({SYNC: None})


def synced_words(done: Synced) -> str:
    """What a sync changed, in words: `created d.t, 2 partitions added`."""
    changed = [_table_words(table) for table in done.tables if table.is_changed]
    return "; ".join(changed) or "nothing to change"


def _note(table: HoodieTable, target: SyncTarget) -> str | None:
    try:
        (done,) = sync_targets(table, (target,))
    except Exception as error:
        # Any error: the commit itself took place.
        return _failure(f"registering it as {target}", error)
    return f"{target.kind}: {synced_words(done)}" if done.is_changed else None


def _failure(what: str, error: Exception) -> str:
    _log.warning("%s failed: %s", what, error)
    return f"{what} {_FAILED}: {error}"


def _table_words(table: TableSynced) -> str:
    verb = "created" if table.is_created else "altered" if table.is_altered else "synced"
    counts = (
        (table.partitions_added, "added"),
        (table.partitions_moved, "moved"),
        (table.partitions_dropped, "dropped"),
    )
    parts = [f"{counted(count, 'partition')} {how}" for count, how in counts if count]
    return ", ".join([f"{verb} {table.name}", *parts])
