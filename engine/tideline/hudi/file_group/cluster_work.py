"""How the rows of one clustering group are divided among tasks, so that each sorts in memory. Pure.

1. A group becomes `output_groups` files; without an order each takes some of the slices.
2. With an order and few enough bytes one task sorts the whole group.
3. A larger group is cut along the order: every file takes the same number of parts, each so small
   that a task holds it. File and part of a row follow from the splits of a sample.

File ids are made from instant, group and file: a run that is repeated after a death makes the same
file groups again, so that a late task of the dead run never adds rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID, uuid5

from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.timeline.instant_time import InstantTime

PART_BYTES_MAX = 96 * 1024 * 1024
"""Stored bytes that a task sorts at once; in memory they are several times as many."""

_NAMESPACE = UUID("7b7f4a55-5d2c-4c5e-9b4f-0d1f6a1f9c11")


class RewrittenGroup(Protocol):
    """Slices of one partition that become `output_groups` new file groups."""

    @property
    def slices(self) -> tuple[FileSlice, ...]: ...

    @property
    def output_groups(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TaskSlices:
    """Slices that one task reads, sorts if asked to, and writes."""

    slices: tuple[FileSlice, ...]
    file_id_prefix: str

    @property
    def size_bytes(self) -> int:
        return sum(file_slice.size_bytes for file_slice in self.slices)


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """A group whose rows are shuffled: into `files` files of `parts` parts each."""

    slices: tuple[FileSlice, ...]
    file_id_prefixes: tuple[str, ...]
    parts: int

    @property
    def files(self) -> int:
        return len(self.file_id_prefixes)


@dataclass(frozen=True, slots=True)
class CutGroups:
    """All groups of a run: slices for one task each, the largest first, and groups to split."""

    whole: tuple[TaskSlices, ...]
    split: tuple[SplitGroup, ...]


def cut_groups(
    groups: Iterable[RewrittenGroup],
    *,
    is_ordered: bool,
    instant: InstantTime,
    part_bytes_max: int = PART_BYTES_MAX,
) -> CutGroups:
    """How all groups of the run are cut, at `instant`."""
    whole: list[TaskSlices] = []
    split: list[SplitGroup] = []
    for number, group in enumerate(groups):
        cut = cut_group(
            group.slices,
            group.output_groups,
            is_ordered=is_ordered,
            instant=instant,
            group=number,
            part_bytes_max=part_bytes_max,
        )
        if isinstance(cut, SplitGroup):
            split.append(cut)
        else:
            whole += cut
    whole.sort(key=lambda share: share.size_bytes, reverse=True)
    return CutGroups(tuple(whole), tuple(split))


def cut_group(
    slices: Sequence[FileSlice],
    output_groups: int,
    *,
    is_ordered: bool,
    instant: InstantTime,
    group: int,
    part_bytes_max: int = PART_BYTES_MAX,
) -> tuple[TaskSlices, ...] | SplitGroup:
    """What each task takes of a group; `group` is its number in the plan."""
    size_bytes = sum(file_slice.size_bytes for file_slice in slices)
    prefixes = tuple(_prefix(instant, group, file) for file in range(output_groups))
    if not is_ordered:
        shares = _shares(slices, output_groups)
        return tuple(
            TaskSlices(tuple(share), prefix)
            for share, prefix in zip(shares, prefixes, strict=False)
        )
    if output_groups == 1 and size_bytes <= part_bytes_max:
        return (TaskSlices(tuple(slices), prefixes[0]),)
    parts = max(1, -(-size_bytes // (output_groups * part_bytes_max)))
    return SplitGroup(tuple(slices), prefixes, parts)


def _shares(slices: Sequence[FileSlice], count: int) -> Iterator[list[FileSlice]]:
    """Slices spread so that no share is much larger than another; largest first."""
    shares: list[list[FileSlice]] = [[] for _ in range(count)]
    sizes = [0] * count
    for file_slice in sorted(slices, key=lambda item: item.size_bytes, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(file_slice)
        sizes[least] += max(1, file_slice.size_bytes)
    return (share for share in shares if share)


def _prefix(instant: InstantTime, group: int, file: int) -> str:
    return str(uuid5(_NAMESPACE, f"{instant}/{group}/{file}"))
