"""A store that goes away at the very moment a commit becomes visible."""

from __future__ import annotations

from tideline.storage.object_store import AlreadyExists, ObjectInfo, ObjectStore, Written
from tideline.testing.faulty_store import FaultPlan, FaultyStore

FOREVER = 100_000
"""More calls than any test makes."""


class GoingAway(FaultyStore):
    """A store that goes away at the completing write, for `calls` calls, having taken it or not.

    With `before` it is away one call earlier: at the look at the inflight instant.
    """

    def __init__(
        self,
        inner: ObjectStore,
        *,
        takes_place: bool,
        calls: int = FOREVER,
        before: bool = False,
        kernel_locks: bool = False,
    ) -> None:
        super().__init__(inner, kernel_locks=kernel_locks)
        self._takes_place = takes_place
        self._before = before
        self._away_for = calls

    def head(self, path: str) -> ObjectInfo | None:
        if self._before and path.endswith(".inflight"):
            self._go_away()
        return super().head(path)

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        if path.endswith(".commit") and self._away_for:
            if self._takes_place:
                self._inner.put_if_absent(path, body, token=token)
            self._go_away()
        return super().put_if_absent(path, body, token=token)

    def _go_away(self) -> None:
        if self._away_for:
            first = self.calls + 1
            self.plan = FaultPlan(unavailable_calls=frozenset(range(first, first + self._away_for)))
            self._away_for = 0
