"""How often this process looked into an index of a table, and how often into files though there was
one: it lagged, or could not be read.

Each look into an index is counted here by the code that looks.
"""

from __future__ import annotations

import threading

_lock = threading.Lock()
_answered = 0
_passed_over = 0


def count_lookup(*, is_answered: bool) -> None:
    """One more: the index was used, or files were looked into instead."""
    global _answered, _passed_over
    with _lock:
        if is_answered:
            _answered += 1
        else:
            _passed_over += 1


def lookups_so_far() -> tuple[int, int]:
    """How many indexes were used, and how many were passed over."""
    with _lock:
        return _answered, _passed_over
