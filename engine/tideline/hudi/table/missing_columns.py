"""What becomes of columns, and fields of structs, that incoming rows lack."""

from __future__ import annotations

from enum import Enum


class MissingColumns(Enum):
    """REFUSED names them. OPTIONAL_ARE_NULL refuses input that lacks a required one; with NULL
    these become optional (partial updates, merged schemas)."""

    REFUSED = "refused"
    OPTIONAL_ARE_NULL = "optional are null"
    NULL = "null"
