"""A store through which another process goes first, once, at a chosen call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from tideline.storage.object_store import ObjectStore
from tideline.testing.stepping_store import Step, SteppingStore

_WRITES = frozenset({"put", "put_if_absent", "delete", "delete_many", "open_writer"})


class InterruptedStore(SteppingStore):
    """Lets `work` happen before the n-th call, counted from 1; remembers all calls."""

    def __init__(self, inner: ObjectStore, number: int, work: Callable[[], object]) -> None:
        self.steps: list[Step] = []
        counting = threading.RLock()

        def hook(step: Step) -> None:
            with counting:
                self.steps.append(step)
                if len(self.steps) == number:
                    work()

        super().__init__(inner, hook)

    def moments(self, every: int) -> Iterator[int]:
        """The numbers of calls worth a try: those that write, and every so many others."""
        for number, step in enumerate(self.steps, start=1):
            if step.method in _WRITES or number % every == 1:
                yield number
