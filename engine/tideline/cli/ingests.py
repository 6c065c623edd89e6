"""What the ingests of a table took in, and what they set aside: a part of `show` and of `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.errors import CorruptTableError, TidelineError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.ingest.sources.checkpoint import read_newest_checkpoints
from tideline.ingest.sources.kinds import SourceKind, kind_named
from tideline.storage.location import StoreLocation


def describe_ingests(table: HoodieTable, timeline: ActiveTimeline) -> list[dict[str, Any]]:
    """The checkpoints that the newest commit carries, and what waits in their quarantines."""

    def read(instant: Instant) -> Mapping[str, str]:
        try:
            return table.commits.read(instant).extra_metadata
        except CorruptTableError:
            # What is wrong with a commit is for `check` to say.
            return {}

    found = []
    for name, checkpoint in sorted(read_newest_checkpoints(timeline, read).items()):
        kind = kind_named(checkpoint.position.kind)
        uri = kind.uri_of(checkpoint.address, table.uri) if checkpoint.address else None
        found.append(
            {
                "name": name,
                "prefix": uri,
                "generation": checkpoint.generation,
                "up_to": str(checkpoint.position),
                "set_aside": _set_aside(kind, uri, table) if uri is not None else None,
            }
        )
    return found


def _set_aside(kind: SourceKind, uri: str, table: HoodieTable) -> str | None:
    """What waits in the quarantine of a source, which may be out of reach from here."""
    if kind.describe_set_aside is None:
        return None
    try:
        store = StoreLocation.of(uri, dict(table.location.options)).open()
        return kind.describe_set_aside(store)
    except TidelineError as error:
        return f"cannot be listed: {error.message}"
