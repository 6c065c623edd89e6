"""What was observed of an Iceberg table, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.due_facts import IcebergFiles
from tideline.ingest.sources.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class ObservedIceberg:
    """An Iceberg table that exists.

    `metadata` lacks the document it came from. `files` is None until the files of the newest
    snapshot are counted, which is done at `count_at_ms` so that counting stays a small part of the
    time.
    """

    metadata: TableMetadata
    metadata_location: str
    files: IcebergFiles | None = None
    count_at_ms: int | None = None
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
