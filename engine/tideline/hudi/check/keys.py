"""Is every key stored once: in its partition, or in the whole table?

The whole table is looked at where something says that keys are unique there (see
tideline.hudi.index.uniqueness), and where the user asks for it: then a key in two partitions is a
warning, for it may be meant. Reads the key columns of the newest file slices, logs merged in, and
counts with Arrow. Needs Arrow, and memory for the keys of one partition, or of the table.

Where rows are merged by custom code, which keys a slice with logs still has is not known. All keys
in its files are counted as if they were there: what is stored once then, is, and what is doubled
only with their help may be. Without meta columns such slices are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.check_finding import Finding, error, note, warning
from tideline.errors import ConfigError, CorruptTableError, TidelineError, UnsupportedTableError
from tideline.hudi.capabilities.table_capabilities import custom_merging
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext, read_file_slice
from tideline.hudi.index.uniqueness import global_index, says_unique
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.meta_column import RECORD_KEY
from tideline.hudi.table.properties import MergeMode
from tideline.wording import counted

NAME = "keys"
_SAMPLES_MAX = 5


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is counted together: one partition, or the table with the reason why keys are unique."""

    partition: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return "the table" if self.partition is None else f"partition {self.partition!r}"


def check_keys_across_partitions(seen: Inspection) -> Iterator[Finding]:
    """The same findings as `check_keys`, and those of keys that are in two partitions."""
    return check_keys(seen, across_partitions=True)


def check_keys(seen: Inspection, *, across_partitions: bool = False) -> Iterator[Finding]:
    """Findings about keys that several file groups hold, or one several times."""
    config = seen.table.config
    names = [RECORD_KEY] if config.populate_meta_fields else list(config.record_key_fields)
    if not names:
        yield note(NAME, "the table has no record keys")
        return
    try:
        schema = seen.table.schemas.newest(seen.timeline)
    except TidelineError as broken:
        yield note(NAME, f"not looked into, the schema cannot be read: {broken.message}")
        return
    if schema is None:
        return
    try:
        context = SliceContext.of(seen.table, seen.timeline, schema)
    except (ConfigError, UnsupportedTableError) as unread:
        yield note(NAME, f"not looked into: {unread.message}")
        return
    slices = {name: seen.view.latest_slices(name) for name in seen.view.partitions}
    if context.merge_mode is None:
        yield from _unmerged(seen, slices)
        if not context.populate_meta_fields:
            slices = {
                name: tuple(file_slice for file_slice in found if not file_slice.log_files)
                for name, found in slices.items()
            }
    try:
        reason = says_unique(seen.table) if global_index(seen.table) is not None else None
    except (ConfigError, CorruptTableError) as broken:
        reason = None
        yield note(NAME, f"whether they are unique in the whole table is not known: {broken}")
    if reason is not None or across_partitions:
        everything = [file_slice for some in slices.values() for file_slice in some]
        yield from _doubles(seen, context, everything, names, _Scope(reason=reason))
        return
    for partition, in_partition in slices.items():
        yield from _doubles(seen, context, in_partition, names, _Scope(partition))


def _unmerged(seen: Inspection, slices: Mapping[str, Sequence[FileSlice]]) -> Iterator[Finding]:
    """What is not known of slices whose logs cannot be merged here."""
    config = seen.table.config
    count = sum(bool(file_slice.log_files) for found in slices.values() for file_slice in found)
    if not count:
        return
    said = "all keys in their files are taken for stored"
    if not config.populate_meta_fields:
        said = "their keys were not looked into"
    yield note(
        NAME,
        f"{counted(count, 'file group')} with logs: rows are merged in a custom way "
        f"({custom_merging(config)}), so which keys they still have is not known; {said}",
    )


def _doubles(
    seen: Inspection,
    context: SliceContext,
    slices: Sequence[FileSlice],
    names: Sequence[str],
    scope: _Scope,
) -> Iterator[Finding]:
    tables = []
    for number, file_slice in enumerate(slices):
        try:
            tables.append(_keys(seen, context, file_slice, names, number))
        except CorruptTableError as broken:
            path = str(broken.path or "")
            if path in seen.objects and seen.table.store.head(path) is None:
                continue  # cleaned since it was listed
            yield error(
                NAME,
                f"cannot be read: {broken.message}",
                path=path or str(file_slice.group),
                advice="put it back from a copy, or restore to a savepoint from before",
            )
        except (ConfigError, UnsupportedTableError) as unread:
            yield note(NAME, f"not looked into: {unread.message}", path=str(file_slice.group))
    if not tables:
        return
    by_key = pa.concat_tables(tables).group_by(list(names)).aggregate([("slice", "list")])
    lengths = pc.list_value_length(by_key.column("slice_list"))
    doubled = by_key.filter(pc.greater(lengths, 1))
    if not doubled.num_rows:
        return
    sure = np.ones(doubled.num_rows, dtype=np.bool_)
    if context.merge_mode is None:
        sure = _is_sure(doubled, slices)
    errors, warnings = _checked(doubled.filter(pa.array(sure)), slices, scope)
    yield from _named(errors, slices, names, scope, error)
    yield from _named(warnings, slices, names, scope, warning)
    yield from _possible(doubled.filter(pa.array(~sure)), slices, names, scope)


def _is_sure(doubled: pa.Table, slices: Sequence[FileSlice]) -> np.ndarray:
    """Which doubled keys are so without the slices whose logs are not merged."""
    found = doubled.column("slice_list").combine_chunks()
    rows = pc.list_parent_indices(found).to_numpy()
    has_logs = np.array([bool(file_slice.log_files) for file_slice in slices])
    certain = rows[~has_logs[pc.list_flatten(found).to_numpy()]]
    return np.bincount(certain, minlength=doubled.num_rows) > 1


def _checked(
    doubled: pa.Table, slices: Sequence[FileSlice], scope: _Scope
) -> tuple[pa.Table, pa.Table]:
    """Doubled keys that are wrong, and those that may be meant: one in each of some partitions."""
    if scope.partition is not None or scope.reason is not None:
        return doubled, doubled.slice(0, 0)
    partitions = {name: number for number, name in enumerate({s.partition for s in slices})}
    homes = pa.array([partitions[file_slice.partition] for file_slice in slices], pa.int32())
    found = doubled.column("slice_list").combine_chunks()
    rows = pc.list_parent_indices(found)
    pairs = pa.table({"row": rows, "home": homes.take(pc.list_flatten(found))})
    per_partition = pairs.group_by(["row", "home"]).aggregate([([], "count_all")])
    several = per_partition.filter(pc.greater(per_partition.column("count_all"), 1))
    is_wrong = pc.is_in(pa.array(np.arange(doubled.num_rows)), several.column("row"))
    return doubled.filter(is_wrong), doubled.filter(pc.invert(is_wrong))


def _named(
    doubled: pa.Table,
    slices: Sequence[FileSlice],
    names: Sequence[str],
    scope: _Scope,
    finding: Callable[..., Finding],
) -> Iterator[Finding]:
    because = f", where keys are unique ({scope.reason})" if scope.reason else ""
    # Threads that group keys give them in any order.
    ordered = doubled.sort_by([(name, "ascending") for name in names])
    for row in ordered.slice(0, _SAMPLES_MAX).to_pylist():
        key = ",".join(str(row[name]) for name in names)
        groups = ", ".join(str(slices[number].group) for number in sorted(set(row["slice_list"])))
        yield finding(
            NAME,
            f"key {key!r} is stored {len(row['slice_list'])} times in {scope}{because}: {groups}",
            path=scope.partition,
            advice="delete the key and write its row again",
        )
    rest = doubled.num_rows - _SAMPLES_MAX
    if rest > 0:
        message = f"stored several times in {scope}{because}: {counted(rest, 'more key')}"
        yield finding(NAME, message, path=scope.partition)


def _possible(
    doubled: pa.Table, slices: Sequence[FileSlice], names: Sequence[str], scope: _Scope
) -> Iterator[Finding]:
    if not doubled.num_rows:
        return
    (row,) = doubled.slice(0, 1).to_pylist()
    groups = ", ".join(str(slices[number].group) for number in sorted(set(row["slice_list"])))
    yield note(
        NAME,
        f"{counted(doubled.num_rows, 'key')} may be stored several times in {scope}, unless the "
        f"logs leave one row of each, such as {','.join(str(row[name]) for name in names)!r} in "
        f"{groups}",
        path=scope.partition,
        advice="ask the engine that writes the table: it merges the logs",
    )


def _keys(
    seen: Inspection,
    context: SliceContext,
    file_slice: FileSlice,
    names: Sequence[str],
    number: int,
) -> pa.Table:
    """The keys of a slice, each with the slice's number. Raises as `read_file_slice`."""
    store, schema = seen.table.store, pa.schema([(name, pa.string()) for name in names])
    is_unmerged = context.merge_mode is None and bool(file_slice.log_files)
    merged = replace(file_slice, log_files=()) if is_unmerged else file_slice
    batches = [
        pa.RecordBatch.from_arrays(
            [pc.cast(batch.column(name), pa.string()) for name in names], schema=schema
        )
        for batch in read_file_slice(store, merged, context, names)
    ]
    keys = pa.Table.from_batches(batches, schema)
    if is_unmerged:
        # Which entry wins does not matter: the keys of all are taken.
        anyhow = replace(context, merge_mode=MergeMode.COMMIT_TIME_ORDERING)
        logged = pa.table(
            [FileSliceMerge(store, file_slice, anyhow, names).merged_log().keys], schema
        )
        is_new = pc.invert(pc.is_in(logged.column(0), value_set=keys.column(0)))
        keys = pa.concat_tables([keys, logged.filter(is_new)])
    numbers = pa.repeat(pa.scalar(number, pa.int32()), keys.num_rows)
    return keys.append_column("slice", pa.chunked_array([numbers]))
