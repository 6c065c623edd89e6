"""Values that every commit carries on from the one before: JSON objects with a generation.

The writer of such a value (an ingest writes its checkpoint) increments the generation; what else is
in it is its owner's. Of two values under one key the one of the higher generation is the newer.
"""

from __future__ import annotations

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import CorruptTableError, UnsupportedTableError

CARRIED_PREFIX = "tideline.checkpoint."
"""What keys of carried values begin with, in the extra metadata of a commit."""

CARRIER_KEY = "tideline.ingest"
"""Whose carried value a commit set itself, rather than carried on: the rest of the value's key."""


def carried_key(owner: str) -> str:
    """The key of an owner's value."""
    return f"{CARRIED_PREFIX}{owner}"


def generation(value: str | None) -> int | None:
    """The generation of a carried value; None for what is none."""
    try:
        return int(parse_json(value or "")["generation"])
    except (CorruptTableError, UnsupportedTableError, *PARSER_FAULTS):
        return None
