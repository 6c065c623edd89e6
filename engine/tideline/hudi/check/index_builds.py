"""Builds of indexes of Hudi's, under way or of writers that died: commits here wait for them.

Nothing tells a build that died from one that is slow, so that no repair ends it: what does is the
command that the advice names.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, note, warning
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.metadata_table.index_build import (
    failed_builds,
    is_silent,
    planned_partitions,
    remedy,
)
from tideline.hudi.timeline.instant import Action, State

NAME = "index builds"


def check_index_builds(seen: Inspection) -> Iterator[Finding]:
    """Findings about pending instants of builds."""
    table = seen.table
    failed = failed_builds(table, seen.timeline)
    silent_min = DEFAULT_LIMITS.silent_s_max / 60
    for instant in seen.timeline.of(Action.INDEXING).pending():
        built = ", ".join(sorted(planned_partitions(table, instant))) or "an index"
        if instant in failed:
            yield note(
                NAME,
                f"a build of {built} failed and left its instant, which the next commit deletes",
                instant=instant.time,
            )
        elif not is_silent(table, instant):
            yield note(NAME, f"Hudi builds {built}", instant=instant.time)
        elif instant.state is State.INFLIGHT:
            yield warning(
                NAME,
                f"Hudi began to build {built} more than {silent_min:.0f} minutes ago, and commits "
                "wait until it is done",
                instant=instant.time,
                advice=f"where its writer has died, {remedy(table, instant)}",
            )
        else:
            yield note(
                NAME,
                f"a build of {built} was requested, and did not start",
                instant=instant.time,
                advice=f"where nothing will run it, {remedy(table, instant)}",
            )
