"""A part of work that only says its number, for tests of the runners of parts."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.errors import InvalidDataError
from tideline.hudi.write.work_parts import TaskNumbers
from tideline.storage.object_store import ObjectStore

REFUSED = 13


@dataclass(frozen=True, slots=True)
class NumberedPart:
    """Gives its number twice; refuses to be number `REFUSED`."""

    number: int

    def run(self, store: ObjectStore, task: TaskNumbers) -> list[tuple[int, str]]:
        """The number, and what the task was told it is."""
        if self.number == REFUSED:
            raise InvalidDataError("such a number brings bad luck", path=store.uri)
        return [(self.number, type(task).__name__)] * 2
