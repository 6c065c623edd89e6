"""What becomes of landing files whose rows are in the table."""

from __future__ import annotations

from enum import Enum


class AfterIngest(Enum):
    """KEEP leaves them where they are; MOVE and REMOVE keep the landing prefix small."""

    KEEP = "Keep"
    MOVE = "Move"
    REMOVE = "Remove"

    def __str__(self) -> str:
        return self.value
