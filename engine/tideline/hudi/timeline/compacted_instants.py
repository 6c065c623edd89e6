"""Which instants' blocks count in logs, where log compactions put blocks together.

A block of a log compaction names the instants whose blocks it stands for. Instants are gone through
newest first, in the order they were first seen: the newest of those that it names takes its blocks,
the others nothing. All other instants take their own.

Source: Hudi's BaseHoodieLogRecordReader (1.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tideline.hudi.timeline.instant_time import InstantTime

StandsFor = Sequence[InstantTime] | None
"""The instants whose blocks a log compaction put together; None of blocks that are no such ones."""


def stands_for(listed: str | None) -> StandsFor:
    """What the header of a block says."""
    return None if listed is None else [InstantTime(text.strip()) for text in listed.split(",")]


def counted_instants(seen: Mapping[InstantTime, StandsFor]) -> list[InstantTime]:
    """The instants whose blocks count, oldest first, of those that wrote blocks, in the order in
    which these were first seen."""
    compacted_into: dict[InstantTime, InstantTime] = {}
    taken: dict[InstantTime, None] = {}
    for instant in reversed(tuple(seen)):
        # A compaction may itself have been compacted since.
        final = compacted_into.get(instant, instant)
        stood_for = seen[instant]
        if stood_for is None:
            taken.setdefault(final)
        else:
            compacted_into |= dict.fromkeys(stood_for, final)
    return list(taken)[::-1]
