"""When a table is looked at again if nothing happens that wakes it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tideline.backoff import doubled
from tideline_operator.controller.poll_pacing import PollPacing
from tideline_operator.controller.settlement import Settlement
from tideline_operator.controller.table_session import TableSession
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.actions import Wait, WaitKind

LOOK_AGAIN_FIRST_S = 10.0
LOOK_AGAIN_LAST_S = 60.0
STUCK_LOOK_S = 30.0
YOUNG_LOOK_S = 4.0
"""How soon a Job is looked at whose driver should be there by then."""
_JITTER = 0.05


@dataclass(slots=True)
class NextLooks:
    """Delays in seconds. For any number of threads, each for another table."""

    pacing: PollPacing
    resync_s: float

    def after_plan(
        self, key: Key, session: TableSession, waits: list[Wait], settled: Settlement, now_ms: int
    ) -> float:
        """When the first wait ends, at the latest at the resync."""
        session.problems = 0
        delays = [self.resync_s]
        for wait in waits:
            delay_s = max(0.0, (wait.until_ms - now_ms) / 1000)
            if wait.kind is WaitKind.POLL:
                delay_s = self.pacing.stretched(key, delay_s)
            delays.append(delay_s)
        if settled.late_at_ms is not None:
            delays.append(max(0.0, (settled.late_at_ms - now_ms) / 1000) + 1)
        if settled.running or settled.pending is not None:
            delays.append(STUCK_LOOK_S if settled.stuck or not waits else self.resync_s)
        if settled.is_young:
            delays.append(YOUNG_LOOK_S)
        return jittered(min(delays))

    def after_problem(self, session: TableSession) -> float:
        """Growing delays, up to a minute, while something outside does not work."""
        delay_s = doubled(LOOK_AGAIN_FIRST_S, session.problems, LOOK_AGAIN_LAST_S)
        session.problems += 1
        return jittered(delay_s)

    def at_resync(self) -> float:
        """When only a change of something that is watched can help."""
        return jittered(self.resync_s)


def jittered(delay_s: float) -> float:
    """A little later, so that tables that started together drift apart."""
    return delay_s * (1 + random.uniform(0, _JITTER)) + 0.01
