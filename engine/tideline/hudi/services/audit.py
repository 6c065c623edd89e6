"""What a service did, file by file: printed by `tideline execute`, as JSON with `--json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tideline.hudi.services.run_metrics import RunMetrics
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.plain_json import members, plain
from tideline.services.benefit import NO_BENEFIT, Benefit
from tideline.services.report import ServiceReport


@dataclass(frozen=True, slots=True)
class FileDone:
    """One file and what became of it: `read`, `written` or `replaced`.

    `rows` is None where it is not known, `path` relative to the table.
    """

    path: str
    what: str
    size_bytes: int
    rows: int | None = None

    @property
    def is_log(self) -> bool:
        """Whether it is a log file; their names begin with a dot."""
        return self.path.rpartition("/")[2].startswith(".")

    @classmethod
    def written(cls, stats: Iterable[WriteStat]) -> tuple[FileDone, ...]:
        """The files of write stats."""
        return tuple(
            cls(stat.path or "", "written", stat.file_size_in_bytes, stat.num_writes)
            for stat in stats
        )

    def to_json_object(self) -> dict[str, Any]:
        return {**members(self, "path", "what", bytes="size_bytes"), "rows": self.rows}


@dataclass(frozen=True, slots=True)
class ServiceDone:
    """A finished run of a service that moves rows. `service` is its name, `words` what it did,
    `benefit` what readers save by it."""

    service: str
    instant: InstantTime
    files: tuple[FileDone, ...]
    metrics: RunMetrics
    words: str
    benefit: Benefit = NO_BENEFIT

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        return ServiceReport(
            self.words,
            self.instant,
            bytes_read=self.metrics.bytes_read,
            files_written=sum(1 for file in self.files if file.what == "written"),
            bytes_written=self.metrics.bytes_written,
            rows_written=self.metrics.rows_written,
            benefit=self.benefit,
        )

    def to_json_object(self) -> dict[str, Any]:
        """The audit of the run."""
        named = members(self, "service", "instant", "metrics", saved="benefit")
        return {**named, "files": plain(self.files)}
