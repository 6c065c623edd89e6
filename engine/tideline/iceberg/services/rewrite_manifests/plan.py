"""Which manifests to rewrite, so that a filter on partitions reads few of them; pure.

1. Manifests of one partition spec and one kind of content are put in order of the partitions that
   their list names for them: nulls first, then NaN, then values.
2. Neighbours whose partitions overlap belong together. A manifest that overlaps with none and is
   of about the target size is well clustered and stays.
3. What lies between two that stay is one group: all its entries are sorted by partition and cut
   into as many manifests as they fill. A group without overlaps is left if that makes no fewer.

A second run on the result finds nothing to do. In a spec without partitions only sizes count.

Source: Iceberg's `RewriteManifests`, which rewrites all manifests of a spec whenever it runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError, CorruptTableError
from tideline.iceberg.manifest.manifest_entry import FieldSummary, ManifestContent, ManifestFile
from tideline.iceberg.metadata.field_type import FieldType
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.single_value import decode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import whole_property

NAME = "rewrite_manifests"
TARGET_PROPERTY = "commit.manifest.target-size-bytes"
TARGET_SIZE_BYTES_DEFAULT = 8 * 1024 * 1024
MIN_MANIFESTS = "min-manifests"
"""Tideline's own setting: a rewrite that takes fewer is not worth a snapshot."""
_SMALL, _LARGE = 0.75, 1.8

SortValue = tuple[int, Any]
"""A partition value that can be compared: nulls, then NaN, then values."""

_NULL: SortValue = (0, 0)
_NAN: SortValue = (1, 0)
_LOWEST: SortValue = (-1, 0)
_HIGHEST: SortValue = (3, 0)


def sort_value(value: Any) -> SortValue:
    """Where a partition value comes in the order."""
    if value is None:
        return _NULL
    return _NAN if value != value else (2, value)


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """`spec_id` of None is the table's current spec; `sort_by` names its partition fields, most
    important first, all of them in their order by default. `rewrite_all` takes every manifest. A
    rewrite that takes fewer than `manifests_min` is not worth a snapshot."""

    spec_id: int | None = None
    sort_by: tuple[str, ...] = ()
    rewrite_all: bool = False
    manifests_min: int = 1


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """Manifests whose entries are sorted together. `positions` are those of the partition tuple to
    sort by, `outputs` is how many manifests are to be expected."""

    spec_id: int
    content: ManifestContent
    positions: tuple[int, ...]
    manifests: tuple[ManifestFile, ...]
    outputs: int

    @property
    def size_bytes(self) -> int:
        """The manifests' bytes."""
        return sum(manifest.length_bytes for manifest in self.manifests)

    def to_json_object(self) -> dict[str, object]:
        """The group for machines."""
        return {
            "spec_id": self.spec_id,
            "content": self.content.name.lower(),
            "manifests": [manifest.path for manifest in self.manifests],
            "bytes": self.size_bytes,
            "expected": self.outputs,
        }


def plan_manifests(
    manifests: Iterable[ManifestFile], metadata: TableMetadata, options: ManifestOptions
) -> tuple[ManifestGroup, ...]:
    """The groups to rewrite. Raises ConfigError for an unknown spec or partition field."""
    spec = _spec(metadata, options.spec_id)
    positions = _positions(spec, options.sort_by)
    target = whole_property(metadata.properties, TARGET_PROPERTY, TARGET_SIZE_BYTES_DEFAULT)
    types = [
        nested_field.type
        for nested_field in spec.partition_type(metadata.partition_schema(spec)).fields
    ]
    listed = [manifest for manifest in manifests if manifest.spec_id == spec.spec_id]
    groups = []
    for content in ManifestContent:
        boxes = sorted(
            (
                _Box.of(manifest_file, positions, types)
                for manifest_file in listed
                if manifest_file.content is content
            ),
            key=lambda box: (box.lower, box.upper),
        )
        for run in _runs(boxes, target, rewrite_all=options.rewrite_all):
            outputs = max(
                1,
                math.ceil(
                    sum(manifest_file.length_bytes for manifest_file in run) / max(1, target)
                ),
            )
            groups.append(ManifestGroup(spec.spec_id, content, positions, tuple(run), outputs))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class _Box:
    """The partitions of some manifests, field by field."""

    manifests: tuple[ManifestFile, ...]
    lower: tuple[SortValue, ...]
    upper: tuple[SortValue, ...]

    @classmethod
    def of(
        cls, manifest: ManifestFile, positions: Sequence[int], types: Sequence[FieldType]
    ) -> _Box:
        summaries = manifest.partitions
        if summaries is None or len(summaries) != len(types):
            count = len(positions)
            return cls((manifest,), (_LOWEST,) * count, (_HIGHEST,) * count)
        ranges = [_range(summaries[at], types[at]) for at in positions]
        return cls((manifest,), tuple(low for low, _ in ranges), tuple(high for _, high in ranges))

    def overlaps(self, other: _Box) -> bool:
        """Whether the two could not follow each other in a sorted table."""
        bounds = zip(self.lower, self.upper, other.lower, other.upper, strict=True)
        for lower, upper, other_lower, other_upper in bounds:
            if upper <= other_lower or other_upper <= lower:
                if lower == upper == other_lower == other_upper:
                    continue
                return False
            return True
        return False

    def joined(self, other: _Box) -> _Box:
        return _Box(
            (*self.manifests, *other.manifests),
            tuple(map(min, self.lower, other.lower)),
            tuple(map(max, self.upper, other.upper)),
        )


def _range(summary: FieldSummary, type_: FieldType) -> tuple[SortValue, SortValue]:
    if summary.lower_bound is None or summary.upper_bound is None:
        low = high = _NAN if summary.contains_nan else _NULL
    else:
        try:
            low = (2, decode_value(type_, summary.lower_bound))
            high = (2, decode_value(type_, summary.upper_bound))
            if low > high:
                return _LOWEST, _HIGHEST
        except (CorruptTableError, TypeError, ValueError):
            return _LOWEST, _HIGHEST
    if summary.contains_nan:
        low = min(low, _NAN)
    return (_NULL if summary.contains_null else low), high


def _runs(boxes: Sequence[_Box], target: int, *, rewrite_all: bool) -> Iterator[list[ManifestFile]]:
    """Manifests between those that stay, as far as rewriting them gains something."""
    if rewrite_all:
        everything = [manifest for box in boxes for manifest in box.manifests]
        if everything:
            yield everything
        return
    run: list[_Box] = []
    for box in _components(boxes):
        size_bytes = box.manifests[0].length_bytes
        if len(box.manifests) == 1 and _SMALL * target <= size_bytes <= _LARGE * target:
            yield from _gain(run, target)
            run = []
        else:
            run.append(box)
    yield from _gain(run, target)


def _components(boxes: Sequence[_Box]) -> Iterator[_Box]:
    current: _Box | None = None
    for box in boxes:
        if current is not None and current.overlaps(box):
            current = current.joined(box)
            continue
        if current is not None:
            yield current
        current = box
    if current is not None:
        yield current


def _gain(run: Sequence[_Box], target: int) -> Iterator[list[ManifestFile]]:
    manifests = [manifest for box in run for manifest in box.manifests]
    outputs = math.ceil(sum(manifest.length_bytes for manifest in manifests) / max(1, target))
    has_overlaps = any(len(box.manifests) > 1 for box in run)
    has_large = any(manifest.length_bytes > _LARGE * target for manifest in manifests)
    if has_overlaps or has_large or max(1, outputs) < len(manifests):
        yield manifests


def _spec(metadata: TableMetadata, spec_id: int | None) -> PartitionSpec:
    wanted = metadata.default_spec_id if spec_id is None else spec_id
    by_id: Mapping[int, PartitionSpec] = {
        partition_spec.spec_id: partition_spec for partition_spec in metadata.partition_specs
    }
    if wanted not in by_id:
        message = "the table has no partition spec of this id"
        raise ConfigError(message, table=metadata.location, value=wanted)
    return by_id[wanted]


def _positions(spec: PartitionSpec, sort_by: Sequence[str]) -> tuple[int, ...]:
    at = {field.name: position for position, field in enumerate(spec.fields)}
    unknown = [name for name in sort_by if name not in at]
    if unknown:
        message = f"manifests of spec {spec.spec_id} are sorted by its fields: {', '.join(at)}"
        raise ConfigError(message, value=", ".join(unknown))
    if sort_by:
        return tuple(at[name] for name in sort_by)
    kept = (position for name, position in at.items()
            if spec.fields[position].transform.name != "void")  # fmt: skip
    return tuple(kept)
