"""What happens where the table in the source was emptied."""

from __future__ import annotations

from enum import Enum


class OnTruncate(Enum):
    """Fail stops the ingest, Ignore keeps the rows of before, Delete deletes them."""

    FAIL = "Fail"
    IGNORE = "Ignore"
    DELETE = "Delete"
