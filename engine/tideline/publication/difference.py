"""What of a Hudi table has to be published: the pure part.

The instants that were published are a property of the publication, so that what completed since is
known whatever the order in which it did. Where one of them is gone without having been archived,
the table was taken back, and everything is compared.

So it is where commits may have come and gone to the archive in between. What is archived is older
than the start of the active timeline. Up to the oldest write that was pending, or else the newest
instant, nothing could come any more: as long as the timeline does not start later, what is not
published is still active.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant

INSTANTS_MAX = 1000
"""So many published instants are remembered; older ones count as published."""

_Listed = TypeVar("_Listed")


@dataclass(frozen=True, slots=True)
class Progress:
    """Commits that completed since the last publication, and published ones that were undone.

    `is_whole`: there are no others; else there may be, in the archive.
    """

    new: tuple[Instant, ...]
    undone: frozenset[str]
    is_whole: bool = True

    @property
    def is_current(self) -> bool:
        """Whether everything is published."""
        return self.is_whole and not self.new and not self.undone

    @classmethod
    def of(
        cls, published: frozenset[str], settled_until: str, timeline: ActiveTimeline
    ) -> Progress:
        """`published` are instant times, `settled_until` is that of the same timeline; empty where
        it was not noted."""
        completed = timeline.of(*COMMIT_ACTIONS).completed().instants
        times = {str(instant.time) for instant in completed}
        is_cut = len(published) >= INSTANTS_MAX
        oldest = min(settled_until, min(published, default=""))
        new = tuple(
            instant
            for instant in completed
            if str(instant.time) not in published and not (is_cut and str(instant.time) < oldest)
        )
        start = str(timeline.start or "")
        undone = frozenset(path for path in published if path >= start and path not in times)
        is_whole = bool(settled_until) and (not timeline.has_archive or start <= settled_until)
        return cls(new, undone if start else frozenset(), is_whole)


def remembered(timeline: ActiveTimeline) -> tuple[str, ...]:
    """The instants to remember as published, oldest first."""
    completed = timeline.of(*COMMIT_ACTIONS).completed().instants
    return tuple(str(instant.time) for instant in completed)[-INSTANTS_MAX:]


@dataclass(frozen=True, slots=True)
class FileChange:
    """Paths of files that have to come and to go."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


def plan_files(wanted: Iterable[str], listed: Iterable[str]) -> FileChange:
    """The change from the files `listed` to those `wanted`, in a stable order."""
    now, before = frozenset(wanted), frozenset(listed)
    return FileChange(tuple(sorted(now - before)), tuple(sorted(before - now)))


def chosen(paths: Iterable[str], by_path: Mapping[str, _Listed]) -> tuple[_Listed, ...]:
    """The values of some paths."""
    return tuple(by_path[path] for path in paths)
