"""Which files replace which: a rewrite as a value, and what it has in common with other changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tideline.errors import InvalidDataError
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.snapshot import MAIN


@dataclass(frozen=True, slots=True)
class AddedDelete:
    """A new delete file; `sequence_number` is the one its deletes already had, None: a new one."""

    file: DataFile
    sequence_number: int | None = None


class ReplacedFiles(Protocol):
    """Files that go and files that come, as manifests are made of them."""

    @property
    def removed_data(self) -> tuple[DataFile, ...]: ...
    @property
    def added_data(self) -> tuple[DataFile, ...]: ...
    @property
    def removed_deletes(self) -> tuple[DataFile, ...]: ...
    @property
    def added_deletes(self) -> tuple[AddedDelete, ...]: ...
    @property
    def sequence_number(self) -> int | None: ...
    @property
    def summary_extra(self) -> Mapping[str, str]: ...


def operation_of(files: ReplacedFiles) -> str:
    """As Iceberg names what a commit does that changes rows."""
    if not (files.removed_data or files.removed_deletes or files.added_deletes):
        return "append"
    return "overwrite" if files.added_data else "delete"


@dataclass(frozen=True, slots=True)
class RewriteFiles:
    """Files to be replaced, files that replace them, and the snapshot that was read for it.

    With `sequence_number`, that of the starting snapshot, equality deletes that arrived since also
    apply to the new data files, so they are no conflict. One that `gives_way` is void as soon as
    another writer changes rows of the same partitions in place.
    """

    starting_snapshot_id: int
    removed_data: tuple[DataFile, ...] = ()
    added_data: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    added_deletes: tuple[AddedDelete, ...] = ()
    sequence_number: int | None = None
    branch: str = MAIN
    summary_extra: Mapping[str, str] = field(default_factory=dict)
    gives_way: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidDataError for what could not be a rewrite of the same rows."""
        if not self.removed_data and not self.removed_deletes:
            raise InvalidDataError("a rewrite must replace files")
        if self.added_data and not self.removed_data:
            raise InvalidDataError("a rewrite that replaces no data file cannot add one")
        if self.added_deletes and not self.removed_deletes:
            raise InvalidDataError("a rewrite that replaces no delete file cannot add one")
        for file in (*self.removed_data, *self.added_data):
            if file.content is not FileContent.DATA:
                raise InvalidDataError("a delete file is not a data file", path=file.file_path)
        added = {file.file_path for file in self.added_data}
        clash = next(
            (data_file for data_file in self.removed_data if data_file.file_path in added), None
        )
        if clash is not None:
            raise InvalidDataError("a file cannot replace itself", path=clash.file_path)
        before = sum(file.record_count for file in self.removed_data)
        after = sum(file.record_count for file in self.added_data)
        if after > before:
            raise InvalidDataError("a rewrite cannot add rows", value=f"{before} became {after}")
