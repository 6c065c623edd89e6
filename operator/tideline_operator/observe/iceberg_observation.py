"""Looking at an Iceberg table: its newest metadata, and what its newest snapshot consists of.

Reads only, without Java or Arrow. While the newest metadata file is the known one, a look costs a
few requests for its number; a new one is read together with the manifests of the newest snapshot,
which are planned as a rewrite would plan them. Where that takes long it is done rarely enough to
stay a small part of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tideline.bounded.read_limits import reads_large_objects
from tideline.clock import Clock
from tideline.iceberg.services.due_facts import IcebergFiles
from tideline.iceberg.services.registry import REWRITE_DATA_FILES, REWRITE_POSITION_DELETES
from tideline.iceberg.services.snapshot_files import count_snapshot_files
from tideline.iceberg.table.table_operations import Loaded
from tideline.ingest.sources.iceberg_checkpoints import iceberg_checkpoints
from tideline_operator.decide.iceberg_settings import iceberg_settings
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.observe.iceberg_source import IcebergSource
from tideline_operator.resources.lake_table import LakeTableSpec

COUNTING_FREE_MS = 2_000
"""Counting that takes at most this long is done after every change."""
_COUNTING_SHARE = 20


_Settings = tuple[Mapping[str, str], Mapping[str, str]]
"""How rewrites of data files, and of position deletes, would run."""


@dataclass(slots=True)
class IcebergMemory:
    """What is remembered of one table between two looks; all of it may be lost."""

    table_uuid: str | None = None
    loaded: Loaded | None = None
    counted: tuple[str, _Settings] | None = None
    files: IcebergFiles | None = None
    count_again_ms: int = 0

    def forget_other(self, table_uuid: str) -> None:
        """Nothing of another table that was in the same place before."""
        if table_uuid != self.table_uuid:
            self.table_uuid = table_uuid
            self.loaded = self.counted = self.files = None
            self.count_again_ms = 0


def observe_iceberg(
    source: IcebergSource, spec: LakeTableSpec, memory: IcebergMemory, clock: Clock
) -> ObservedIceberg:
    """Look at the table. Raises ObjectNotFoundError when there is none, and the errors of
    loading."""
    loaded = source.load(memory.loaded)
    memory.forget_other(loaded.metadata.table_uuid)
    if loaded is not memory.loaded:
        # The document as it was read is as large as the rest together.
        loaded = replace(loaded, metadata=replace(loaded.metadata, document={}))
        # Large metadata is read again each time: between two looks no table may hold much memory.
        memory.loaded = None if reads_large_objects() else loaded
    settings = (
        iceberg_settings(spec, REWRITE_DATA_FILES),
        iceberg_settings(spec, REWRITE_POSITION_DELETES),
    )
    key = (loaded.metadata_location, settings)
    started_ms = clock.now_ms()
    checkpoints = iceberg_checkpoints(loaded.metadata)
    seen = ObservedIceberg(loaded.metadata, loaded.metadata_location, checkpoints=checkpoints)
    files = memory.files if memory.counted == key else None
    if files is not None and not files.is_quiet_at(started_ms):
        return replace(seen, files=files)
    if started_ms < memory.count_again_ms and files is not None:
        # It still holds, but for partitions that have become quiet.
        return replace(seen, files=replace(files, quiet_at_ms=memory.count_again_ms))
    if started_ms < memory.count_again_ms:
        return replace(seen, count_at_ms=memory.count_again_ms)
    memory.files = count_snapshot_files(source.io, loaded.metadata, *settings, now_ms=started_ms)
    memory.counted = key
    took_ms = clock.now_ms() - started_ms
    pause_ms = _COUNTING_SHARE * took_ms if took_ms > COUNTING_FREE_MS else 0
    memory.count_again_ms = started_ms + took_ms + pause_ms
    return replace(seen, files=memory.files)
