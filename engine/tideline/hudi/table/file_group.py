"""File groups, file slices and the names of their files.

A file group is one growing set of records within a partition. Every rewrite of it is a base file
`<file id>_<write token>_<instant>.parquet`; what is appended between rewrites are log files
`.<file id>_<instant>.log.<version>_<write token>`. A base file and the logs on top of it are a
file slice. In timeline layout 1 the instant in a log file's name is the slice's base instant.
Source: Hudi's FSUtils, HoodieBaseFile, HoodieLogFile, FileSlice, HoodieFileGroup.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time

PARQUET = "parquet"
METADATA_BOOTSTRAP = InstantTime("00000000000001")
"""The instant of base files that have only Hudi's columns."""

_BASE_FILE = re.compile(r"([A-Za-z0-9-]+)_([A-Za-z0-9-]+)_([0-9]+)\.(parquet|orc|hfile|lance)")
_LOG_FILE = re.compile(r"\.(.+)_([0-9]+)\.log\.([0-9]+)(?:_([0-9]+-[0-9]+-[0-9]+))?(\.cdc)?")


@dataclass(frozen=True, slots=True, order=True)
class FileGroupId:
    """Names one file group of a table. `partition` is "" in a table without partitions."""

    partition: str
    file_id: str

    def __str__(self) -> str:
        return join_path(self.partition, self.file_id)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The file that a bootstrapped base file takes its columns from.

    It is at `uri`, reached with the table's storage `options`, or at `moved` below the table.
    `values` are what the names of its folders say of columns, as text. `place`, one of
    `NamedPlaces`, is what `uri` is read below; None when it is not read.
    """

    uri: str
    moved: str
    size_bytes: int
    values: tuple[tuple[str, str | None], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    place: str | None = None


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One base file. `extension` has no dot; `source` is known of skeletons in a view."""

    partition: str
    file_id: str
    write_token: str
    instant: InstantTime
    size_bytes: int
    extension: str = PARQUET
    source: SourceFile | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, partition: str, name: str, size_bytes: int = 0) -> BaseFile | None:
        """The base file of this name, None when the name is not a base file's."""
        match = _BASE_FILE.fullmatch(name)
        if match is None or not is_instant_time(match[3]):
            return None
        return cls(partition, match[1], match[2], InstantTime(match[3]), size_bytes, match[4])

    @property
    def name(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"

    @property
    def path(self) -> str:
        """Relative to the table base."""
        return join_path(self.partition, self.name)

    @property
    def group(self) -> FileGroupId:
        return FileGroupId(self.partition, self.file_id)

    @property
    def is_skeleton(self) -> bool:
        """Whether it has only Hudi's columns; see tideline.hudi.table.bootstrap_index."""
        return self.instant == METADATA_BOOTSTRAP

    @property
    def is_plain(self) -> bool:
        """Whether it is one Parquet file with all its columns."""
        return self.extension == PARQUET and not self.is_skeleton


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log file. `instant` is the one in its name: the slice's base instant in layout 1.

    `write_token` is "" in names of Hudi before 0.5.1. A change data capture log has `is_cdc`.
    """

    partition: str
    file_id: str
    instant: InstantTime
    version: int
    write_token: str
    size_bytes: int
    is_cdc: bool = False

    @classmethod
    def parse(cls, partition: str, name: str, size_bytes: int = 0) -> LogFile | None:
        """The log file of this name, None when the name is not a log file's."""
        match = _LOG_FILE.fullmatch(name)
        if match is None or not is_instant_time(match[2]):
            return None
        return cls(
            partition,
            file_id=match[1],
            instant=InstantTime(match[2]),
            version=int(match[3]),
            write_token=match[4] or "",
            size_bytes=size_bytes,
            is_cdc=match[5] is not None,
        )

    @property
    def name(self) -> str:
        token = f"_{self.write_token}" if self.write_token else ""
        cdc = ".cdc" if self.is_cdc else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{cdc}"

    @property
    def path(self) -> str:
        """Relative to the table base."""
        return join_path(self.partition, self.name)

    @property
    def group(self) -> FileGroupId:
        return FileGroupId(self.partition, self.file_id)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file with the log files on top of it, oldest log first; either may be absent.

    `cdc_files` are logs of changes that were written next to the base file: no row of the table is
    in them, and they live as long as the slice does.
    """

    group: FileGroupId
    base_instant: InstantTime
    base_file: BaseFile | None = None
    log_files: tuple[LogFile, ...] = ()
    cdc_files: tuple[LogFile, ...] = ()

    @property
    def partition(self) -> str:
        return self.group.partition

    @property
    def file_id(self) -> str:
        return self.group.file_id

    @property
    def files(self) -> tuple[BaseFile | LogFile, ...]:
        """All its files: those with rows, and logs of changes."""
        return (*self.row_files, *self.cdc_files)

    @property
    def row_files(self) -> tuple[BaseFile | LogFile, ...]:
        """The files that have its rows: the base file if there is one, and logs."""
        base = (self.base_file,) if self.base_file else ()
        return (*base, *self.log_files)

    @property
    def size_bytes(self) -> int:
        base_bytes = self.base_file.size_bytes if self.base_file else 0
        return base_bytes + sum(log.size_bytes for log in self.log_files)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """A file group with its slices, newest first."""

    id: FileGroupId
    slices: tuple[FileSlice, ...]

    @property
    def base_files(self) -> tuple[BaseFile, ...]:
        """Newest first."""
        return tuple(
            file_slice.base_file for file_slice in self.slices if file_slice.base_file is not None
        )


def join_path(partition: str, name: str) -> str:
    """`partition/name`, or just `name` in a table without partitions."""
    return f"{partition}/{name}" if partition else name


def split_path(path: str) -> tuple[str, str]:
    """The partition and the file name of a table-relative path."""
    partition, _, name = path.rpartition("/")
    return partition, name


def replaced_groups(metadata: CommitMetadata) -> tuple[FileGroupId, ...]:
    """The file groups a commit replaced."""
    replaced = metadata.partition_to_replace_file_ids or {}
    return tuple(
        FileGroupId(partition, file_id) for partition, ids in replaced.items() for file_id in ids
    )
