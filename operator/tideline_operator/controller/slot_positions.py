"""How far tables of LakeSources have read, as their looks found it since this process began.

A table that was not looked at yet is not here: it holds its slot.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.object_cache import key_of
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.observed import Observed
from tideline_operator.decide.source_plan import position_of

Positions = Mapping[str, PostgresPosition | None]
"""By the uid of a LakeTable; None where the table has no commit."""


class SlotPositions:
    """For any number of threads, each with another table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Key, tuple[str, PostgresPosition]] = {}

    def note(self, item: Manifest, observed: Observed) -> None:
        """What a look at the table of a LakeTable found."""
        if observed.problem is not None:
            return
        position = position_of(observed.checkpoints) if observed.has_table else None
        uid = str(item["metadata"]["uid"])
        with self._lock:
            if position is not None:
                self._known[key_of(item)] = uid, position
            else:
                self._known.pop(key_of(item), None)

    def forget(self, key: Key) -> None:
        """A table was deleted."""
        with self._lock:
            self._known.pop(key, None)

    def now(self) -> Positions:
        """All of them, as they are now."""
        with self._lock:
            return dict(self._known.values())
