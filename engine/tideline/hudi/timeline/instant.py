"""Instants: one action on a table at one instant time, in one of three states.

Each state of an instant is one immutable object in the timeline directory; how its file name is
spelled belongs to the layout (`layout_v1`, `layout_v2`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.hudi.timeline.instant_time import InstantTime


class Action(Enum):
    """What happens at an instant. The value is the word used in file names and plans."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"

    # Timelines are full of hashes, and an Enum computes each in Python.
    __hash__ = object.__hash__

    @property
    def when_completed(self) -> Action:
        """The action a completed instant of this action is known by.

        Compaction completes as commit, log compaction as deltacommit, clustering as replacecommit.
        """
        return _COMPLETES_AS.get(self, self)

    def __str__(self) -> str:
        return self.value

    def __lt__(self, other: Action) -> bool:
        return self.value < other.value


class State(Enum):
    """How far an instant has come; states only move forward, in this order."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"

    __hash__ = object.__hash__

    @property
    def is_pending(self) -> bool:
        return self is not State.COMPLETED

    def __str__(self) -> str:
        return self.value

    def __lt__(self, other: State) -> bool:
        return _STATE_RANK[self] < _STATE_RANK[other]


_COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}
_STATE_RANK = {state: rank for rank, state in enumerate(State)}

COMMIT_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
WRITE_ACTIONS = COMMIT_ACTIONS | frozenset(_COMPLETES_AS)


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """One action at one time in one state, ordered by time, action, state.

    `completion_time` is what its name says of when it completed; layout 1 says nothing.
    """

    time: InstantTime
    action: Action
    state: State
    completion_time: InstantTime | None = None

    @property
    def is_completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        return self.state is not State.COMPLETED

    @property
    def completed_at(self) -> InstantTime | None:
        """When it completed, None of a pending one.

        In layout 1 that is the requested time: writers there take turns, so that commits may be
        ordered by either.
        """
        return (self.completion_time or self.time) if self.is_completed else None

    def in_state(self, state: State, at: InstantTime | None = None) -> Instant:
        """The same instant in another state; a completed one has its completed action.

        `at` is when it completed, in layouts that say so.
        """
        action = self.action.when_completed if state is State.COMPLETED else self.action
        return Instant(self.time, action, state, at)

    def __hash__(self) -> int:
        return hash(self.time)

    def __str__(self) -> str:
        return f"{self.time}.{self.action}.{self.state.value.lower()}"


def state_spellings(*, without: Action | None = None) -> dict[tuple[Action, State], str]:
    """How names of instant files end, by action and state, but of one action."""
    spellings: dict[tuple[Action, State], str] = {}
    for action in Action:
        if action is without:
            continue
        if action is not Action.SAVEPOINT:
            spellings[action, State.REQUESTED] = f"{action.value}.requested"
        spellings[action, State.INFLIGHT] = f"{action.value}.inflight"
        if action.when_completed is action:
            spellings[action, State.COMPLETED] = action.value
    spellings[Action.COMMIT, State.INFLIGHT] = "inflight"
    return spellings
