"""What a publication did, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication did. `instant` is the newest Hudi commit that is published, None for a
    table without any; `snapshot_id` the snapshot that this made, None when no file has changed."""

    instant: str | None
    snapshot_id: int | None = None
    files_added: int = 0
    files_removed: int = 0
    snapshots_expired: int = 0

    @property
    def is_new(self) -> bool:
        return self.snapshot_id is not None
