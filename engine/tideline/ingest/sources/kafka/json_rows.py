"""Values that are JSON objects, as Arrow rows; which of them are none, and why.

Many values are read at once, one a line: a vectorised reader takes the columns that are
declared, by their types, and ignores others. Where that fails, or gives another number of rows,
they are halved (`decoded`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj

from tideline.ingest.sources.kafka.decoded import NoRowError, read_halves

_BLOCK_BYTES_MIN = 1 << 20
_AT_ONCE = 20_000
"""What is parsed stays in the processor's cache."""
TEXTS_OF_NUMBERS = (b'"NaN"', b'"Infinity"', b'"-Infinity"')
"""Floating numbers that JSON lacks, as the converter of Kafka Connect writes them."""
_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_LINE_END, _OBJECT_BEGIN = b"\n{"
_OTHER_KIND = re.compile(r"Column\(/(.+)\) changed from (\w+) to (\w+)")


def read_json_values(values: Sequence[bytes], schema: pa.Schema) -> tuple[pa.Table, dict[int, str]]:
    """Rows of the good values in their order, and the reason of each bad one by its number."""
    bad: dict[int, str] = {}
    tables = read_halves(values, partial(json_rows, schema=schema), bad, _AT_ONCE)
    return pa.concat_tables(tables) if tables else schema.empty_table(), bad


def json_rows(values: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """A row for each value. Raises NoRowError."""
    try:
        return _parsed(values, schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NoRowError(_reason(error)) from error


def _parsed(values: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    joined = b"\n".join(values)
    text = np.frombuffer(joined, np.uint8)
    if np.count_nonzero(text == _LINE_END) != len(values) - 1 or b"\r" in joined:
        values = [_one_line(value) for value in values]
        joined = b"\n".join(values)
    if not _begin_objects(values, joined):
        raise NoRowError("the value is no JSON object")
    table = pj.read_json(
        pa.BufferReader(joined),
        read_options=pj.ReadOptions(block_size=max(_BLOCK_BYTES_MIN, len(joined) + 1)),
        parse_options=pj.ParseOptions(
            explicit_schema=_as_written(schema),
            unexpected_field_behavior="ignore",
            newlines_in_values=False,
        ),
    )
    if table.num_rows != len(values):
        raise NoRowError("the value is not one JSON object")
    # The reader takes bytes that are no text.
    table.validate(full=True)
    return table.cast(schema)


def _begin_objects(values: Sequence[bytes], joined: bytes) -> bool:
    """Whether each value, all of them joined by ends of lines, begins as an object does."""
    lengths: npt.NDArray[np.int64] = np.fromiter(map(len, values), np.int64, len(values))
    begins = np.cumsum(lengths + 1) - lengths - 1
    text = np.frombuffer(joined, np.uint8)
    if lengths.all() and (text[begins] == _OBJECT_BEGIN).all():
        return True
    return all(value.lstrip()[:1] == b"{" for value in values)


def _as_written(schema: pa.Schema) -> pa.Schema:
    """The columns as JSON has them: a date is text, which the reader takes for a number of days."""
    return pa.schema([item.with_type(_written_type(item.type)) for item in schema])


def _written_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([item.with_type(_written_type(item.type)) for item in inner])
    if pa.types.is_list(kind):
        return pa.list_(_written_type(kind.value_type))
    return kind


def with_numbers(value: bytes, schema: pa.Schema) -> bytes:
    """The same JSON object with the floating numbers that JSON lacks, which the reader takes, where
    they are texts; what is none stays."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    kind = pa.struct(list(schema))
    return json.dumps(_numbered(found, kind), ensure_ascii=False).encode()


def _numbered(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, dict) and pa.types.is_struct(kind):
        fields = {kind.field(number).name: kind.field(number) for number in range(kind.num_fields)}
        return {
            name: _numbered(item, fields[name].type) if name in fields else item
            for name, item in value.items()
        }
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_numbered(item, kind.value_type) for item in value]
    if isinstance(value, str) and pa.types.is_floating(kind):
        return _NUMBERS.get(value, value)
    return value


def _one_line(value: bytes) -> bytes:
    """The same JSON in one line: its lines end between tokens, and its numbers stay as they are
    written. Raises NoRowError."""
    if b"\n" not in value and b"\r" not in value:
        return value
    try:
        json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise NoRowError(f"the value is not one JSON object: {error}") from error
    return value.replace(b"\n", b" ").replace(b"\r", b" ")


def _reason(error: Exception) -> str:
    """The reader's words, without the number of the row, which is always the first."""
    text = str(error).partition("JSON parse error: ")[2].removesuffix(" in row 0") or str(error)
    return _OTHER_KIND.sub(r"column \1: a \3 where a \2 is expected", text)
