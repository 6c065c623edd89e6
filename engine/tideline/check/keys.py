"""Is every key stored once: in its partition, or in the whole table where the index is global?

Reads the key columns of the newest base files, partition by partition, and counts with Arrow. Needs
Arrow, and memory for the keys of one partition (of the table, for a global index). Log files are
not looked into: they hold newer versions of keys of their own file group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tideline.check.finding import Finding, error, note
from tideline.check.inspection import Inspection
from tideline.errors import ObjectNotFound
from tideline.table.file_group import BaseFile

NAME = "keys"
RECORD_KEY = "_hoodie_record_key"
_SAMPLES_MAX = 5


def check_keys(seen: Inspection) -> Iterator[Finding]:
    """Findings about keys that several files hold, or one file several times."""
    config = seen.table.config
    names = [RECORD_KEY] if config.populate_meta_fields else list(config.record_key_fields)
    if not names:
        yield note(NAME, "the table has no record keys")
        return
    files = {name: seen.view.latest_base_files(name) for name in seen.view.partitions}
    if (config.index_type or "").startswith("GLOBAL_"):
        yield from _doubles(seen, [file for some in files.values() for file in some], names, None)
        return
    for partition, in_partition in files.items():
        yield from _doubles(seen, in_partition, names, partition)


def _doubles(
    seen: Inspection, files: Sequence[BaseFile], names: Sequence[str], partition: str | None
) -> Iterator[Finding]:
    read = (_keys(seen, file, names, number) for number, file in enumerate(files))
    tables = [keys for keys in read if keys is not None]
    if not tables:
        return
    counted = pa.concat_tables(tables).group_by(list(names)).aggregate([("file", "list")])
    lengths = pc.list_value_length(counted.column("file_list"))
    doubled = counted.filter(pc.greater(lengths, 1))
    if not doubled.num_rows:
        return
    place = "the table" if partition is None else f"partition {partition!r}"
    for row in doubled.slice(0, _SAMPLES_MAX).to_pylist():
        key = ",".join(str(row[name]) for name in names)
        paths = ", ".join(files[number].path for number in sorted(set(row["file_list"])))
        yield error(
            NAME,
            f"key {key!r} is stored {len(row['file_list'])} times in {place}: {paths}",
            path=partition,
            advice="delete the key and write its row again",
        )
    rest = doubled.num_rows - _SAMPLES_MAX
    if rest > 0:
        yield error(NAME, f"{rest} more keys are stored several times in {place}", path=partition)


def _keys(seen: Inspection, file: BaseFile, names: Sequence[str], number: int) -> pa.Table | None:
    """The keys of a base file, each with the file's number; None when it cannot be read."""
    try:
        with seen.table.store.open_reader(file.path) as stream:
            keys = pq.ParquetFile(stream).read(columns=list(names))
    except (ObjectNotFound, pa.ArrowInvalid, OSError):
        return None  # the base files' check tells
    columns = [pc.cast(keys.column(name), pa.string()) for name in names]
    numbers = pa.repeat(pa.scalar(number, pa.int32()), keys.num_rows)
    return pa.table([*columns, numbers], [*names, "file"])
