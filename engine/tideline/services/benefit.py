"""What a run of a table service saves its readers, at each look, and the store.

All of it is counted from names and sizes of files before and after. What cannot be counted, such as
row groups that a query skips because rows are sorted, is left out.

`Benefit.benefit_bytes` is all of it in one unit, bytes that one scan of the table no longer reads,
so that services can be compared:

- a byte that a scan no longer reads counts as one;
- opening a file counts as 4 MiB, as in Spark (`spark.sql.files.openCostInBytes`) and in Iceberg
  (`read.split.open-file-cost`);
- a byte of a log, or of a delete file, that is no longer merged counts as 5 more: reading and
  merging a log took this process six times as long as reading the same bytes of a base file;
- an object that is no longer listed counts as a thousandth of an opened file, because a request
  lists 1,000;
- a byte that is no longer stored counts as one: at the prices of object stores and processors,
  keeping it for a day costs about as much as reading it eight times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tideline.wording import counted, size_text

FILE_OPENED_BYTES = 4 * 1024 * 1024
OBJECT_LISTED_BYTES = FILE_OPENED_BYTES // 1000
DELTA_MERGED_FACTOR = 5


@dataclass(frozen=True, slots=True)
class Benefit:
    """How much less is done and kept; negative where it is more.

    `files_opened` are files that a scan of the whole table opens, `bytes_scanned` what it reads of
    them. `delta_files` are those of the files that every read has to merge, logs of Hudi and delete
    files of Iceberg, `delta_bytes` their size. `objects_listed` are objects in the folders that a
    look at the table lists, `bytes_stored` what the store keeps.
    """

    files_opened: int = 0
    bytes_scanned: int = 0
    delta_files: int = 0
    delta_bytes: int = 0
    objects_listed: int = 0
    bytes_stored: int = 0

    @property
    def benefit_bytes(self) -> int:
        """All of it as bytes that one scan of the table no longer reads."""
        return (
            self.bytes_scanned
            + self.files_opened * FILE_OPENED_BYTES
            + self.delta_bytes * DELTA_MERGED_FACTOR
            + self.objects_listed * OBJECT_LISTED_BYTES
            + self.bytes_stored
        )

    def benefit_per_byte(self, bytes_moved: int) -> float:
        """The benefit of each byte that is read and written for it."""
        return self.benefit_bytes / max(bytes_moved, 1)

    def __add__(self, other: Benefit) -> Benefit:
        return Benefit(
            *(
                getattr(self, attribute.name) + getattr(other, attribute.name)
                for attribute in fields(Benefit)
            )
        )

    @property
    def words(self) -> str:
        """For people: `5 files fewer to open, 1.2 MB less to read`."""
        counts = (
            (self.files_opened, "file", "to open"),
            (self.delta_files, "delta file", "to merge"),
            (self.objects_listed, "object", "to list"),
        )
        sizes = (
            (self.bytes_scanned, "to read"),
            (self.delta_bytes, "to merge"),
            (self.bytes_stored, "to keep"),
        )
        parts = [
            f"{counted(abs(count), noun)} {'fewer' if count > 0 else 'more'} {what}"
            for count, noun, what in counts
            if count
        ]
        parts += [
            f"{size_text(abs(size))} {'less' if size > 0 else 'more'} {what}"
            for size, what in sizes
            if size
        ]
        return ", ".join(parts) or "nothing that can be counted"

    def to_json_object(self) -> dict[str, int]:
        """The benefit for machines."""
        return {**asdict(self), "benefit_bytes": self.benefit_bytes}

    @classmethod
    def from_json_object(cls, content: Mapping[str, Any]) -> Benefit:
        """Raises ValueError, TypeError for what are no numbers; names it does not know are left."""
        known = (attribute.name for attribute in fields(cls))
        return cls(**{name: int(content[name]) for name in known if name in content})


NO_BENEFIT = Benefit()
