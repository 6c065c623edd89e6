"""Which work on one table may begin while other work continues. Pure.

It follows from what conflicts with what at a commit (`write/conflict.py`), and keeps apart what
would only find out there:

1. Writes go one after another.
2. What only looks at the timeline and at files that nobody reads any more (cleaning, archival), and
   what makes indexes of what is committed (indexing), may run beside a write, and beside a service
   that moves rows; not beside another of its kind.
3. Writes may begin once the plan of a compaction stands: they append to logs on top of what it will
   leave. The plan itself is made while no write is under way, whose logs it would have to leave
   out.
4. Writes may begin once the plan of a clustering stands, unless they would be refused: an update
   that meets a file group of the plan is, where `hoodie.clustering.updates.strategy` says so. Rows
   that are only inserted meet none.
5. One service moves rows at a time. A rollback, a restore, a savepoint, partitions that expire and
   a table being created want the table for themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tideline.services.service import Concurrency, Service


@dataclass(frozen=True, slots=True)
class TableWork:
    """Work on a table: a run of `service`, or without one a write, unless it `is_alone`.

    `is_planned`: the plan of what the service does is in the timeline. `meets_clustering`: a write
    that a pending clustering may refuse.
    """

    service: Service | None = None
    is_planned: bool = False
    meets_clustering: bool = True
    is_alone: bool = False


def may_begin(new: TableWork, under_way: Iterable[TableWork]) -> bool:
    """Whether `new` may begin while all of `under_way` continues."""
    return all(_fit(new, old) for old in under_way)


def _fit(new: TableWork, old: TableWork) -> bool:
    both = {_concurrency(new), _concurrency(old)}
    if Concurrency.NONE in both:
        return False
    if Concurrency.ANY_ROWS in both:
        # The other one moves rows.
        return len(both) == 2
    if new.service is None and old.service is not None:
        is_refused = old.service.refuses_updates and new.meets_clustering
        return old.is_planned and not is_refused
    return False


def _concurrency(work: TableWork) -> Concurrency:
    if work.is_alone:
        return Concurrency.NONE
    return Concurrency.LATER_WRITES if work.service is None else work.service.concurrency
