"""A file slice that an index looks keys up in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.hudi.table.file_group import FileSlice, LogFile

KeyBounds = tuple[str, str]
"""The least and the greatest key, or what lies below the one and above the other."""


@dataclass(frozen=True, slots=True)
class LookupCandidate:
    """The keys looked into are those of `file_slice`, its logs merged in.

    `later_logs` are not searched for keys, but may delete some of them. Such a key is stored here
    only if no other file group has it: a row of it goes back to where it was. With
    `has_rows_in_logs` keys that these logs alone have are looked up as well. `bounds` are those of
    the keys of the base file, where they are known before it is opened.
    """

    file_slice: FileSlice
    later_logs: tuple[LogFile, ...] = ()
    has_rows_in_logs: bool = False
    bounds: KeyBounds | None = None

    @property
    def partition(self) -> str:
        return self.file_slice.partition

    @property
    def file_id(self) -> str:
        return self.file_slice.file_id

    @property
    def has_logs(self) -> bool:
        """Whether any log is read."""
        return bool(self.file_slice.log_files or self.later_logs)

    @property
    def bytes_read(self) -> int:
        """About how much a lookup reads: a file's keys are some quarter of it, logs count whole."""
        base_file, logs = self.file_slice.base_file, (*self.file_slice.log_files, *self.later_logs)
        keys = 0 if base_file is None else base_file.size_bytes // 4
        return keys + sum(log.size_bytes for log in logs)

    @property
    def whole(self) -> FileSlice:
        """The slice with all of its logs."""
        return replace(self.file_slice, log_files=(*self.file_slice.log_files, *self.later_logs))
