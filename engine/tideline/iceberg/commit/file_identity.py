"""When two entries mean the same file, and the same partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.partition_spec import told_apart

FileKey: TypeAlias = tuple[str, int | None]
PartitionKey: TypeAlias = tuple[int, tuple[Any, ...]]
ChangedPartitions: TypeAlias = Mapping[PartitionKey, int]
"""Partitions, each with the moment of its newest change in milliseconds."""


def file_key(file: DataFile) -> FileKey:
    """A file by its location; deletion vectors share one and differ in where they begin."""
    return file.file_path, file.content_offset if file.is_deletion_vector else None


def partition_key(file: DataFile) -> PartitionKey:
    """The spec and the partition, such that equal partitions are equal keys."""
    return file.spec_id, told_apart(file.partition)
