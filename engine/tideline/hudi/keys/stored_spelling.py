"""How a table spells times in the keys and partition paths it has, and whether numbers and binary
columns give these keys.

Hudi has two texts for a timestamp in a key: microseconds, and `2024-01-05 18:00:00.0`, which a bulk
insert by rows and CTAS write whatever the properties say. In a path Spark SQL has a third one. So
what is stored decides:

1. Of some rows the keys are made in both ways, and the one is taken that gives the stored keys.
2. Partition paths are recognised by their form, as a row may lie in another partition than its
   columns say.
3. Where both are found, or neither, rows with new keys would be stored next to the old ones: that
   is refused by name.

Binary columns are `00ff` in keys, but a bulk insert by rows stores what no one can make again
(`[B@987455b`). Of tables without times, floating numbers and binary columns there nothing is read.
Source: Hudi's BuiltinKeyGenerator, SqlKeyGenerator, HoodieAvroUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.hudi.keys.key_generator import DEFAULT_PARTITION, KeyGenerator, PartitionField
from tideline.hudi.keys.key_types import type_at
from tideline.hudi.keys.partition_time import UTC
from tideline.hudi.keys.row_keys import partition_paths, record_keys
from tideline.hudi.keys.zone_offsets import ZoneOffsets
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY

_PATHS_MAX = 1_000
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_HEX = re.compile("([0-9a-f]{2})+")
_TIME = re.compile(r"[+-]?\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+")
_TIME_OF_SQL = re.compile(r"[+-]?\d{4,}-\d\d-\d\d \d\d(%3A|:)\d\d\1\d\d")
_ESCAPE = re.compile("%([0-9A-F]{2})")
_MICROS_PER_MILLI = 1_000


class KeyedTable(Protocol):
    """A table, as far as its keys and partition paths show how it spells them."""

    @property
    def uri(self) -> str: ...

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""

    @property
    def partitions(self) -> Sequence[str]:
        """Its partition paths."""

    def samples(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Some rows: their key, their partition path and these columns."""


def spelled_as_stored(table: KeyedTable, keys: KeyGenerator, zone: str = UTC) -> KeyGenerator:
    """The key generator, with times as the table has them; `zone` is that of times as text.

    Raises UnsupportedTableError where stored keys or paths are of both spellings, or of neither.
    """
    schema = table.schema
    doubtful = [name for name in keys.record_fields if _is_doubtful(schema, name)]
    timed = [part for part in keys.partition_fields if part.timestamp is None]
    doubtful_paths = [part for part in timed if _is_doubtful(schema, part.field)]
    for part in doubtful_paths:
        keys = _paths_as_stored(table, keys, part)
    as_text = keys.paths_have_times_as_text or keys.paths_are_of_sql
    has_text = bool(doubtful_paths) and as_text
    if not doubtful and not has_text:
        return keys
    fields = (*keys.record_fields, *(part.field for part in keys.partition_fields))
    columns = {name.split(".")[0].casefold() for name in fields}
    named = [item.name for item in schema if item.name.casefold() in columns]
    rows = [_in_zone(batch, zone) for batch in table.samples(named)]
    if has_text:
        _check_text_paths(table, keys, doubtful_paths, rows)
    return _keys_as_stored(table, keys, doubtful, rows) if doubtful else keys


def _is_doubtful(schema: pa.Schema, name: str) -> bool:
    kind = type_at(schema, name)
    kinds = (types.is_timestamp, types.is_floating, types.is_binary)
    return kind is not None and any(is_one(kind) for is_one in kinds)


def _is_strange(text: str, kind: pa.DataType | None) -> bool:
    """Whether it is no text of a floating number, or of binary values."""
    if types.is_binary(kind):
        return _HEX.fullmatch(text) is None
    return _WHOLE_NUMBER.fullmatch(text) is not None


def _paths_as_stored(table: KeyedTable, keys: KeyGenerator, part: PartitionField) -> KeyGenerator:
    kind = type_at(table.schema, part.field)
    levels = sorted(set(_levels(keys, part, islice(table.partitions, _PATHS_MAX))))
    numbers = [text for text in levels if _WHOLE_NUMBER.fullmatch(text)]
    times = [text for text in levels if _TIME.fullmatch(text)]
    of_sql = [text for text in levels if _is_of_sql(text, keys)]
    if not types.is_timestamp(kind):
        strange = [text for text in levels if _is_strange(text, kind)]
        if strange:
            raise _unlike(table, part.field, "partition paths", strange[0])
        return keys
    known = {*numbers, *times, *of_sql}
    other = next((text for text in levels if text not in known), None)
    if other is not None:
        raise _unlike(table, part.field, "partition paths", other)
    found = tuple(texts[0] for texts in (numbers, times, of_sql) if texts)
    if len(found) > 1:
        raise _both(table, part.field, "partition paths", found)
    if not levels:
        return keys
    return replace(keys, times_as_text_in_paths=bool(times), paths_are_of_sql=bool(of_sql))


def _is_of_sql(text: str, keys: KeyGenerator) -> bool:
    """Whether it is a time as Spark SQL escapes it, and as `_levels` has it then."""
    match = _TIME_OF_SQL.fullmatch(text)
    return match is not None and (match[1] == ":") == keys.url_encode


def _check_text_paths(
    table: KeyedTable, keys: KeyGenerator, parts: list[PartitionField], rows: list[pa.RecordBatch]
) -> None:
    """Raise UnsupportedTableError where no row is in the partition of its columns: its time is text
    of another zone. One that was moved may be in another."""
    strange = ""
    for batch in rows:
        stored = batch.column(PARTITION_PATH).cast(pa.string())
        made = partition_paths(batch, keys).dictionary_decode()
        if _equal(made, stored).any():
            return
        strange = stored[0].as_py() or ""
    if strange:
        raise _unlike(table, ", ".join(part.field for part in parts), "partition paths", strange)


def _levels(keys: KeyGenerator, part: PartitionField, partitions: Iterable[str]) -> Iterator[str]:
    """The texts of one field in the paths that have one level for each."""
    place, prefix = keys.partition_fields.index(part), f"{part.field}="
    for path in partitions:
        levels = path.split("/")
        if len(levels) != len(keys.partition_fields):
            continue
        text = levels[place].removeprefix(prefix) if keys.hive_style else levels[place]
        if keys.url_encode:
            text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
        if text != DEFAULT_PARTITION:
            yield text


def _keys_as_stored(
    table: KeyedTable, keys: KeyGenerator, doubtful: list[str], rows: Iterable[pa.RecordBatch]
) -> KeyGenerator:
    flipped = replace(
        keys,
        timestamps_as_text=not keys.timestamps_as_text,
        times_as_text_in_paths=keys.paths_have_times_as_text,
    )
    seen: dict[bool, str] = {}
    for batch in rows:
        stored = batch.column(RECORD_KEY).cast(pa.string())
        made = record_keys(batch, keys)
        as_set = _equal(made, stored)
        as_text_or_not = _equal(record_keys(batch, flipped), stored)
        is_made = made.is_valid().to_numpy(zero_copy_only=False)
        unlike = np.flatnonzero(is_made & ~as_set & ~as_text_or_not)
        if len(unlike):
            raise _unlike(table, ", ".join(doubtful), "record keys", stored[unlike[0]].as_py())
        for is_flipped, found in (
            (False, as_set & ~as_text_or_not),
            (True, as_text_or_not & ~as_set),
        ):
            if found.any():
                seen.setdefault(is_flipped, stored[int(np.flatnonzero(found)[0])].as_py())
    if len(seen) > 1:
        raise _both(table, ", ".join(doubtful), "record keys", tuple(seen.values()))
    return flipped if True in seen else keys


def _equal(made: pa.Array, stored: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    flags: np.ndarray[tuple[int], np.dtype[np.bool_]]
    flags = pc.fill_null(pc.equal(made, stored), False).to_numpy(zero_copy_only=False)
    return flags


def _in_zone(rows: pa.RecordBatch, zone: str) -> pa.RecordBatch:
    """The rows with moments moved so that their text in UTC is the one in the zone."""
    offsets = ZoneOffsets.of(zone)
    if zone == UTC or offsets is None:
        return rows
    columns = []
    for column in rows.columns:
        moved = column
        if types.is_timestamp(column.type) and column.type.tz is not None:
            micros = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            known = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
            away = offsets.of_moments(known // _MICROS_PER_MILLI) * _MICROS_PER_MILLI
            mask = column.is_null().to_numpy(zero_copy_only=False)
            moved = pa.array(known + away, mask=mask).cast(pa.timestamp("us", "UTC"))
        columns.append(moved)
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _unlike(table: KeyedTable, names: str, what: str, stored: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"the {what} that the table has are not what its columns ({names}) give here, as after a "
        "change of their type, a bulk insert of binary columns, or in another time zone: new rows "
        "would be stored next to the old ones; delete by condition works, upsert with the engine "
        "that wrote them, or rewrite the whole table (insert_overwrite_table)",
        table=table.uri,
        value=stored,
    )


def _both(
    table: KeyedTable, names: str, what: str, stored: tuple[str, ...]
) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"some {what} have times ({names}) as numbers and some as text, or two kinds of text, so "
        "that rows may be there twice; rewrite the whole table (insert_overwrite_table) with each "
        "row once",
        table=table.uri,
        value=", ".join(stored),
    )
