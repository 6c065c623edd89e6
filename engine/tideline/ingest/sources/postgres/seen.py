"""Which transactions a snapshot of Postgres sees, by their numbers in the log."""

from __future__ import annotations

from dataclasses import dataclass

_NUMBERS = 1 << 32
"""The log numbers transactions modulo this, and so does a server: no two that count are further
apart than half of it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Transactions before `end` that are not `open`."""

    end: int
    open: frozenset[int]

    @classmethod
    def of(cls, snapshot: str) -> Seen:
        """Of the text of pg_current_snapshot: `10:20:10,14`."""
        _, end, numbers = snapshot.split(":")
        return cls(
            int(end) % _NUMBERS, frozenset(int(n) % _NUMBERS for n in numbers.split(",") if n)
        )

    def has(self, xid: int) -> bool:
        """Whether a transaction that is committed in the log is seen."""
        is_before = (self.end - xid - 1) % _NUMBERS < _NUMBERS // 2
        return is_before and xid not in self.open
