"""What a service did, file by file: printed by `tideline execute`, as JSON with `--json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tideline.hudi.services.figures import RunFigures
from tideline.hudi.services.service import Service
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class FileDone:
    """One file and what became of it: `read`, `written` or `replaced`.

    `rows` is None where it is not known, `path` relative to the table.
    """

    path: str
    what: str
    size_bytes: int
    rows: int | None = None

    @classmethod
    def written(cls, stats: Iterable[WriteStat]) -> tuple[FileDone, ...]:
        """The files of write stats."""
        return tuple(
            cls(stat.path or "", "written", stat.file_size_in_bytes, stat.num_writes)
            for stat in stats
        )

    def to_json_object(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "what": self.what,
            "bytes": self.size_bytes,
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True)
class ServiceDone:
    """A finished run of a service that moves rows."""

    service: Service
    instant: InstantTime
    files: tuple[FileDone, ...]
    figures: RunFigures

    def to_json_object(self) -> dict[str, Any]:
        """The audit of the run."""
        return {
            "service": self.service.value,
            "instant": str(self.instant),
            "figures": self.figures.to_json_object(),
            "files": [file.to_json_object() for file in self.files],
        }
