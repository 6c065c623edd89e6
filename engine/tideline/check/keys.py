"""Is every key stored once: in its partition, or in the whole table where the index is global?

Reads the key columns of the newest file slices, logs merged in, and counts with Arrow. Needs Arrow,
and memory for the keys of one partition (of the table, for a global index).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tideline.check.finding import Finding, error, note
from tideline.check.inspection import Inspection
from tideline.errors import ConfigError, CorruptTable, TidelineError, UnsupportedTable
from tideline.table.file_group import FileSlice
from tideline.table.meta_column import RECORD_KEY
from tideline.write.file_slice_merge import SliceContext, read_file_slice

NAME = "keys"
_SAMPLES_MAX = 5


def check_keys(seen: Inspection) -> Iterator[Finding]:
    """Findings about keys that several file groups hold, or one several times."""
    config = seen.table.config
    names = [RECORD_KEY] if config.populate_meta_fields else list(config.record_key_fields)
    if not names:
        yield note(NAME, "the table has no record keys")
        return
    try:
        schema = seen.table.table_schema(seen.timeline)
    except TidelineError as broken:
        yield note(NAME, f"not looked into, the schema cannot be read: {broken.message}")
        return
    if schema is None:
        return
    context = SliceContext.of(seen.table, seen.timeline, schema)
    slices = {name: seen.view.latest_slices(name) for name in seen.view.partitions}
    if (config.index_type or "").startswith("GLOBAL_"):
        everything = [piece for some in slices.values() for piece in some]
        yield from _doubles(seen, context, everything, names, None)
        return
    for partition, in_partition in slices.items():
        yield from _doubles(seen, context, in_partition, names, partition)


def _doubles(
    seen: Inspection,
    context: SliceContext,
    slices: Sequence[FileSlice],
    names: Sequence[str],
    partition: str | None,
) -> Iterator[Finding]:
    tables = []
    for number, piece in enumerate(slices):
        try:
            tables.append(_keys(seen, context, piece, names, number))
        except CorruptTable as broken:
            path = str(broken.path or "")
            if path in seen.objects and seen.table.store.head(path) is None:
                continue  # cleaned since it was listed
            yield error(
                NAME,
                f"cannot be read: {broken.message}",
                path=path or str(piece.group),
                advice="put it back from a copy, or restore to a savepoint from before",
            )
        except (ConfigError, UnsupportedTable) as unread:
            yield note(NAME, f"not looked into: {unread.message}", path=str(piece.group))
    if not tables:
        return
    counted = pa.concat_tables(tables).group_by(list(names)).aggregate([("slice", "list")])
    lengths = pc.list_value_length(counted.column("slice_list"))
    doubled = counted.filter(pc.greater(lengths, 1))
    if not doubled.num_rows:
        return
    place = "the table" if partition is None else f"partition {partition!r}"
    for row in doubled.slice(0, _SAMPLES_MAX).to_pylist():
        key = ",".join(str(row[name]) for name in names)
        groups = ", ".join(str(slices[number].group) for number in sorted(set(row["slice_list"])))
        yield error(
            NAME,
            f"key {key!r} is stored {len(row['slice_list'])} times in {place}: {groups}",
            path=partition,
            advice="delete the key and write its row again",
        )
    rest = doubled.num_rows - _SAMPLES_MAX
    if rest > 0:
        yield error(NAME, f"{rest} more keys are stored several times in {place}", path=partition)


def _keys(
    seen: Inspection,
    context: SliceContext,
    piece: FileSlice,
    names: Sequence[str],
    number: int,
) -> pa.Table:
    """The keys of a slice, each with the slice's number. Raises as `read_file_slice`."""
    schema = pa.schema([(name, pa.string()) for name in names])
    batches = [
        pa.RecordBatch.from_arrays(
            [pc.cast(batch.column(name), pa.string()) for name in names], schema=schema
        )
        for batch in read_file_slice(seen.table.store, piece, context, names)
    ]
    keys = pa.Table.from_batches(batches, schema)
    numbers = pa.repeat(pa.scalar(number, pa.int32()), keys.num_rows)
    return keys.append_column("slice", pa.chunked_array([numbers]))
