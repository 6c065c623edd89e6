"""What the ingests of a table took in, and what they set aside: a part of `show` and of `plan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.errors import CorruptTableError, TidelineError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.ingest.sources.checkpoint import read_newest_checkpoints
from tideline.ingest.sources.files.listing import QUARANTINE, describe_noted
from tideline.ingest.sources.resume import prefix_uri
from tideline.storage.location import StoreLocation


def describe_ingests(table: HoodieTable, timeline: ActiveTimeline) -> list[dict[str, Any]]:
    """The checkpoints that the newest commit carries, and what waits in their quarantines."""

    def read(instant: Instant) -> Mapping[str, str]:
        try:
            return table.read_commit(instant).extra_metadata
        except CorruptTableError:
            # What is wrong with a commit is for `check` to say.
            return {}

    found = []
    for name, checkpoint in sorted(read_newest_checkpoints(timeline, read).items()):
        uri = prefix_uri(checkpoint.prefix, table.uri) if checkpoint.prefix else None
        found.append(
            {
                "name": name,
                "prefix": uri,
                "generation": checkpoint.generation,
                "up_to": checkpoint.watermark.path,
                "set_aside": _set_aside(uri, table) if uri is not None else None,
            }
        )
    return found


def _set_aside(uri: str, table: HoodieTable) -> str | None:
    """What waits in the quarantine of a landing prefix, which may be out of reach from here."""
    try:
        store = StoreLocation.of(uri, dict(table.location.options)).open()
        return describe_noted(store.list(QUARANTINE))
    except TidelineError as error:
        return f"cannot be listed: {error.message}"
