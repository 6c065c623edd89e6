"""What an open table remembers of a commit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from tideline.hudi.table.file_group import BaseFile, FileGroupId, split_path
from tideline.hudi.table.internal_schema import LATEST_SCHEMA_KEY
from tideline.hudi.table.schema_history import OPERATIONS_OF_SERVICES
from tideline.hudi.timeline.commit_metadata import CommitMetadata

_NOTED_GROUPS_MAX = 1000
_CLUSTER = "CLUSTER"


@dataclass(frozen=True, slots=True)
class CommitNote:
    """Its schema, and file groups that it wrote to.

    `groups` are a limited number of them; the rest of a commit can be any size. `latest_schema` is
    the version of the schema history, where the table has one. `base_bytes` and `base_records` are
    what it wrote into base files.
    """

    schema_json: str | None
    groups: tuple[FileGroupId, ...]
    operation_type: str
    latest_schema: str | None = None
    base_bytes: int = 0
    base_records: int = 0

    @property
    def is_clustering(self) -> bool:
        return self.operation_type == _CLUSTER

    @property
    def is_service(self) -> bool:
        """Whether its operation changes no schema."""
        return self.operation_type in OPERATIONS_OF_SERVICES

    @classmethod
    def of(cls, metadata: CommitMetadata) -> CommitNote:
        """The note of a commit."""
        written = (
            FileGroupId(partition, stat.file_id)
            for partition, stats in metadata.partition_to_write_stats.items()
            for stat in stats
            if stat.file_id
        )
        base_files = [
            stat
            for stat in metadata.write_stats
            if stat.path and BaseFile.parse(*split_path(stat.path)) is not None
        ]
        return cls(
            metadata.schema_json,
            tuple(islice(written, _NOTED_GROUPS_MAX)),
            metadata.operation_type,
            metadata.extra_metadata.get(LATEST_SCHEMA_KEY) or None,
            base_bytes=sum(stat.total_write_bytes for stat in base_files),
            base_records=sum(stat.num_writes for stat in base_files),
        )
