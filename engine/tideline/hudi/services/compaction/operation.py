"""One operation of a compaction plan: a file slice to merge (Hudi's HoodieCompactionOperation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tideline.errors import CorruptTableError
from tideline.hudi.services.slice_benefit import benefit_of_rewrite
from tideline.hudi.services.slice_metrics import slice_metrics
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.table.pending_plan import operation_record
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """A slice by the names of its files. Sizes in bytes are those at planning, else 0."""

    slice: FileSlice
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, file_slice: FileSlice, file_size_bytes_max: int) -> CompactionOperation:
        """The operation that merges a slice, with what that costs."""
        return cls(file_slice, slice_metrics((file_slice,), file_size_bytes_max))

    @property
    def group(self) -> FileGroupId:
        return self.slice.group

    @property
    def paths(self) -> tuple[str, ...]:
        """The files it reads, relative to the table."""
        base = (self.slice.base_file.path,) if self.slice.base_file else ()
        return (*base, *(log.path for log in self.slice.log_files))

    @property
    def benefit_per_byte(self) -> float:
        """What merging it saves readers for each byte that is read and written."""
        after = self.bytes_after
        benefit = benefit_of_rewrite((self.slice,), files_after=1, bytes_after=after)
        return benefit.benefit_per_byte(self.slice.size_bytes + after)

    @property
    def bytes_after(self) -> int:
        """Of the new base file, which is expected to keep the size of the old one."""
        base = self.slice.base_file
        return base.size_bytes if base else self.slice.size_bytes

    def to_avro(self) -> dict[str, Any]:
        """The record inside a HoodieCompactionPlan: bare file names."""
        return operation_record(self.slice, self.metrics)

    @classmethod
    def from_avro(cls, record: Mapping[str, Any], *, path: str) -> CompactionOperation:
        """Raises CorruptTableError naming the plan at `path` for names that are no data files, or a
        base instant that is none.
        """
        partition = record.get("partitionPath") or ""
        logs = tuple(
            _parsed(LogFile.parse(partition, _bare(name)), name, path)
            for name in record.get("deltaFilePaths") or ()
        )
        base_name = record.get("dataFilePath") or ""
        base = None
        if base_name:
            base = _parsed(BaseFile.parse(partition, _bare(base_name)), base_name, path)
        group = FileGroupId(partition, record.get("fileId") or "")
        instant = record.get("baseInstantTime") or ""
        if not is_instant_time(instant):
            message = "a compaction plan names no instant: put its object back from a copy"
            raise CorruptTableError(message, path=path, value=instant)
        file_slice = FileSlice(group, InstantTime(instant), base, logs)
        return cls(file_slice, dict(record.get("metrics") or {}))


def _bare(name: str) -> str:
    return name.rpartition("/")[2]


def _parsed(file: T | None, name: str, path: str) -> T:
    if file is None:
        raise CorruptTableError("a compaction plan names no data file", path=path, value=name)
    return file
