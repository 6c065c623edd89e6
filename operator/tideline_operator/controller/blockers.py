"""What blocks a table, and since when: this distinguishes a recurrence from a continuation.

A trouble begins in the first turn that meets it and ends with the first that does not. What is
remembered may be lost with the process: then the start is taken from the table's condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tideline_operator.resources.status import ConditionStatus, ConditionType, LakeTableStatus

_Trouble = tuple[str, str]
"""Reason and subject."""


@dataclass(slots=True)
class Blockers:
    """Those of one table: `begin_turn`, `since_ms` for each that is met, `end_turn`."""

    _known: dict[_Trouble, int] = field(default_factory=dict)
    _met: dict[_Trouble, int] = field(default_factory=dict)

    def begin_turn(self) -> None:
        """Nothing has been met yet."""
        self._met = {}

    def since_ms(self, reason: str, subject: str, reported: LakeTableStatus, now_ms: int) -> int:
        """When the trouble that is met now began; `reported` is the status of the last turn."""
        trouble = (reason, subject)
        since_ms = self._known.get(trouble)
        if since_ms is None:
            since_ms = _said_since_ms(reason, reported, now_ms)
        self._known[trouble] = self._met[trouble] = since_ms
        return since_ms

    def end_turn(self) -> None:
        """What was not met is over."""
        self._known = self._met


def _said_since_ms(reason: str, reported: LakeTableStatus, now_ms: int) -> int:
    for condition in reported.conditions:
        says = condition.type in (ConditionType.READY, ConditionType.HEALTHY)
        if says and condition.status is ConditionStatus.FALSE and condition.reason == reason:
            return condition.last_transition_time.ms
    return now_ms
