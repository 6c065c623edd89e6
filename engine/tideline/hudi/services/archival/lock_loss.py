"""Archival without its lock: instants that it listed are gone, since another process archives them.

The lease of a process that is paused ends. What it finds then is no fault of the table: it is a
conflict, and the next run archives what is left. The same holds where an engine that takes no lock
of the table archives beside us.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tideline.errors import ConflictError, ObjectNotFoundError, TableNotFoundError
from tideline.hudi.commit.completion import has_lease
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.storage.lock import Guard, Lease


def lock_guard(table: HoodieTable, lease: Lease) -> Guard:
    """Raises ConflictError when the lock of the table is about to be taken by others."""

    def require_lock() -> None:
        if not has_lease(lease):
            raise ConflictError(
                "the lease on the table lock ran out during archival; run archival again",
                table=table.location.uri,
            )

    return require_lock


@contextmanager
def losses_are_conflicts(table: HoodieTable, guard: Guard) -> Iterator[None]:
    """Within, an object that is gone is a ConflictError where the lock is lost, as `guard` says,
    or where it was an instant's. Anything else that is missing stays what it is."""
    try:
        yield
    except TableNotFoundError:
        raise
    except ObjectNotFoundError as error:
        guard()
        instant = table.timelines.layout.parse(str(error.path).rpartition("/")[2])
        if instant is None:
            raise
        raise ConflictError(
            "another process took this instant out of the timeline while it was archived; run "
            "archival again",
            table=table.location.uri,
            instant=instant,
            path=error.path,
        ) from error
