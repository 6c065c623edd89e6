"""What the newest completed clean says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.timeline.instant_time import InstantTime

SAVEPOINTED = "savepointed_timestamps"
"""The extra metadata of a clean that names the savepoints of its time."""


@dataclass(frozen=True, slots=True)
class LastClean:
    """What is known of one clean (HoodieCleanMetadata).

    `earliest_retained` is None when it retained by file versions; `savepointed` are the savepoints
    of its time, whose files it left.
    """

    time: InstantTime
    earliest_retained: InstantTime | None = None
    last_completed: InstantTime | None = None
    savepointed: frozenset[InstantTime] = frozenset()
