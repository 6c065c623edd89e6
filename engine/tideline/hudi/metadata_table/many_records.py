"""Records of the metadata table as a partition says them: one by one, or in columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.table.file_group import FileGroupId

GroupsOf = Callable[[str | None], Sequence[FileGroupId]]
"""The file groups of a shard, in order."""


class GroupRecords(Protocol):
    """The records of one file group, each key once."""

    def __len__(self) -> int: ...

    def encoded(self) -> bytes | None:
        """An HFile of those that have content; None where none has."""

    def deleted(self) -> Sequence[str]:
        """The keys that are deleted."""


@runtime_checkable
class ManyRecords(Protocol):
    """Records in columns (`key_runs`)."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def dealt(self, groups_of: GroupsOf) -> Mapping[FileGroupId, GroupRecords]:
        """By the file group that their keys belong to."""


Records = Sequence[MetadataRecord] | ManyRecords
