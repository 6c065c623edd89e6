"""Ending builds of indexes whose writers have died, under the lock of the table.

No heartbeat tells a build of Hudi's that died from one that is slow. So a commit takes away only
what failed and left nothing but the instant (`index_build.failed_builds`), and everything else goes
where it is asked for:

1. What the build made is dropped: what its plan names, with what is of no use without that, what is
   in work, and what came into the list since: a build reads the table without the lock, so that
   even what it listed may lack commits. Died in between: its instant is still in the way.
2. Its instant, inflight first. Died in between: one that is requested stops no commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from tideline.errors import ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.metadata_table.index_build import (
    PENDING,
    builds_of,
    failed_builds,
    is_silent,
)
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import FILES
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.lock import Guard, unguarded


def forget_failed_builds(
    table: HoodieTable, timeline: ActiveTimeline, guard: Guard = unguarded
) -> None:
    """Take the instants of builds away that left nothing else."""
    forget_builds(table, failed_builds(table, timeline), guard)


def forget_builds(table: HoodieTable, builds: Iterable[Instant], guard: Guard = unguarded) -> None:
    """Take the instants of builds away, whose partitions are dropped."""
    for instant in builds:
        guard()
        for state in PENDING:
            if state is instant.state or state is State.REQUESTED:
                table.timelines.remove(instant.in_state(state))


def builds_to_end(
    table: HoodieTable, timeline: ActiveTimeline, name: str
) -> Mapping[Instant, frozenset[str]]:
    """The builds of a partition, with all that they build. Raises ConflictError where one is so
    young that its writer may be alive."""
    found = builds_of(table, timeline, name)
    young = next((instant for instant in found if not is_silent(table, instant)), None)
    if young is not None:
        silent_min = DEFAULT_LIMITS.silent_s_max / 60
        raise ConflictError(
            f"Hudi began to build {name} less than {silent_min:.0f} minutes ago, and may be at it: "
            "try again later",
            table=table.uri,
            instant=young,
        )
    return found


def made_by(
    builds: Mapping[Instant, frozenset[str]],
    there: Collection[str],
    in_work: Collection[str],
    made_at: Mapping[str, InstantTime],
) -> tuple[str, ...]:
    """What of the partitions that are `there` these builds made, or may have, in order; `made_at`
    says when a partition was made, where that is known."""
    found = {*in_work}
    for instant, names in builds.items():
        found |= names
        if instant.state is State.INFLIGHT:
            found |= {name for name, at in made_at.items() if at > instant.time}
    dependent = partial(_depends, on=frozenset(found))
    found |= set(filter(dependent, there))
    return tuple(sorted(found.intersection({*there, *in_work}) - {FILES}))


def _depends(name: str, *, on: frozenset[str]) -> bool:
    return not on.isdisjoint(needed_by(name))
