"""Changes of several Iceberg tables as one commit of their catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError, ConflictError, TidelineError, UnknownOutcomeError
from tideline.iceberg.table.table_operations import (
    Conflicted,
    Loaded,
    TableOperations,
    Unknown,
)
from tideline.iceberg_lake_table import IcebergLakeTable

_SYSTEM_CLOCK = SystemClock()


@contextmanager
def commit_together(*tables: IcebergLakeTable, clock: Clock = _SYSTEM_CLOCK) -> Iterator[None]:
    """Commit what a `with` block does to several tables of one REST catalog as one: all or none.

        with tideline.commit_together(orders, lines):
            orders.append(new_orders)
            lines.upsert(new_lines)

    In the block each table takes one write, delete, update or `alter`, and shows it to the block
    alone. Its end commits them; an error in the block commits none. What ends snapshots, as expiry
    and erasure do, is refused in it. Files of a write that is not committed stay until
    remove_orphan_files takes them away. Where another writer is first repeat the whole block.

    Raises UnsupportedTableError for a catalog that does not commit several tables
    (`/transactions/commit`), ConfigError for tables of different catalogs, ConflictError when
    another writer was first (nothing of the block is visible), UnknownOutcomeError when it is
    unknown whether the commit took place: with a `token` for each write the block can be repeated.
    """
    from tideline.iceberg.table.catalog_transaction import commit_staged, transacting_catalog
    from tideline.iceberg.table.staged_table import StagedTable

    own: list[TableOperations] = [table.table.operations for table in tables]
    if len({id(operations) for operations in own}) < 2:
        raise ConfigError("two tables or more are committed together")
    catalog, kept = transacting_catalog(own)
    before = [
        Loaded(table.table.refresh(), table.table.loaded.metadata_location) for table in tables
    ]
    staged = [StagedTable(table) for table in kept]
    for table, stand_in in zip(tables, staged, strict=True):
        table.table.operations = stand_in
    try:
        yield
        changes = [table.change for table in staged if table.change is not None]
        if changes:
            outcome = commit_staged(catalog, changes, clock=clock)
            _require_committed(outcome, ", ".join(change.table.arguments for change in changes))
    except BaseException:
        for table, loaded in zip(tables, before, strict=True):
            table.table.take(loaded)
        raise
    finally:
        for table, operations in zip(tables, own, strict=True):
            table.table.operations = operations
    for table in tables:
        # Otherwise it is shown as the commit has made it.
        with suppress(TidelineError):
            table.refresh()


def _require_committed(outcome: Conflicted | Unknown | None, names: str) -> None:
    if outcome is None:
        return
    if isinstance(outcome, Conflicted):
        message = f"none of the tables was changed: {outcome.reason}; repeat all of it"
        raise ConflictError(message, value=names)
    raise UnknownOutcomeError(
        f"it is unknown whether the tables were changed, so nothing was deleted: {outcome.reason}. "
        "Look at each before repeating it, or repeat writes with the tokens that they had",
        value=names,
    )
