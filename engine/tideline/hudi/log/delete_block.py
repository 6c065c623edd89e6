"""Deleted keys as the content of a log block, and back, with the ordering value of each delete.

An ordering value is a union of one record per type, `IntWrapper` to `ArrayWrapper`. Written, the
branch number is a field of its own, which is the same bytes; read, every wrapper's field has its
own name, so that a struct column with one child per type can distinguish them. So no record passes
through Python one by one, but for fastavro's own loop.

A delete without an ordering value has natural order: it deletes everything before it. It is written
as the integer 0, because a null makes the table unreadable for Hudi. One block holds one type of
ordering values, because hudi-rs refuses to mix them.
Source: Hudi's HoodieDeleteBlock, DeleteRecord, HoodieAvroWrapperUtils.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.formats.avro import decode_records, encode_records, physical_schema, schema
from tideline.formats.log_block import (
    BlockKind,
    HeaderKey,
    encode_block,
    encode_delete_content,
    split_delete_content,
)
from tideline.hudi.log.data_block import decimals_of_bytes
from tideline.hudi.timeline.instant_time import InstantTime

_DECIMAL = pa.decimal128(30, 15)
_ARRAY = "ArrayWrapper"


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Deleted keys whose ordering values are of one type.

    `ordering` has an array for each ordering field; it is empty for deletes in natural order.
    """

    keys: pa.Array
    partitions: pa.Array
    ordering: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)


def encode_delete_block(
    keys: pa.Array,
    partition: str,
    ordering: Sequence[pa.Array],
    instant: InstantTime,
    schema_json: str,
    *,
    headers: Mapping[HeaderKey, str] | None = None,
) -> bytes:
    """The delete blocks of these keys, behind one another: one for each type of ordering value.

    `ordering` has an array for each ordering field, none for natural order. Where one of a key's
    values is null its delete has natural order. `headers` are further ones. Raises InvalidDataError
    for an ordering type that no wrapper holds.
    """
    all_headers = {
        HeaderKey.INSTANT_TIME: str(instant),
        HeaderKey.SCHEMA: schema_json,
        **(headers or {}),
    }
    natural = pa.repeat(pa.scalar(not ordering), len(keys))
    for values in ordering:
        natural = pc.or_(natural, values.is_null())
    blocks = []
    ordered = pc.invert(natural)
    for chosen, values in (
        (ordered, [item.filter(ordered) for item in ordering]),
        (natural, []),
    ):
        deleted = keys.filter(chosen)
        if len(deleted):
            content = _content(deleted, partition, values)
            blocks.append(encode_block(BlockKind.DELETE, all_headers, content))
    return b"".join(blocks)


def decode_delete_block(content: bytes, *, path: object = None) -> tuple[DeleteRecords, ...]:
    """The deletes of a block's content, by type of ordering value.

    Raises CorruptTableError for content that cannot be read and UnsupportedTableError for that of
    table versions before 6, both naming `path`.
    """
    datum = split_delete_content(content, path=path)
    records = decode_records(_read_schema(), [datum], path=path)[0]["deleteRecordList"]
    with faults_named("delete block cannot be read", path=path):
        rows = pa.array(records, _read_type())
        return tuple(_by_type(rows, path))


def _by_type(rows: pa.StructArray, path: object) -> Iterator[DeleteRecords]:
    keys, partitions, ordering = (rows.field(index) for index in range(3))
    if keys.null_count:
        raise CorruptTableError("delete block with a null key", path=path)
    natural = ordering.is_null()
    for wrapper in _WRAPPERS:
        values = ordering.field(wrapper.name)
        present = values.is_valid()
        if wrapper.name == "IntWrapper":
            is_zero = pc.fill_null(pc.equal(values, 0), False)
            natural = pc.or_(natural, is_zero)
            present = pc.and_not(present, is_zero)
        if pc.any(present).as_py():
            logical = wrapper.read(values.filter(present))
            yield DeleteRecords(keys.filter(present), partitions.filter(present), (logical,))
    several = ordering.field(_ARRAY)
    present = several.is_valid()
    if pc.any(present).as_py():
        fields = _fields_of(several.filter(present), path)
        yield DeleteRecords(keys.filter(present), partitions.filter(present), fields)
    if pc.any(natural).as_py():
        yield DeleteRecords(keys.filter(natural), partitions.filter(natural))


def _fields_of(lists: pa.ListArray, path: object) -> tuple[pa.Array, ...]:
    """Lists of wrapped values as one array for each place in the list."""
    lengths = pc.unique(pc.list_value_length(lists))
    if len(lengths) != 1:
        raise UnsupportedTableError(
            "delete block with ordering values of several lengths", path=path
        )
    fields = []
    for place in range(lengths[0].as_py()):
        wrapped = pc.list_element(lists, place)
        kinds = [
            wrapper
            for wrapper in (*_WRAPPERS, _LOCAL_DATE)
            if wrapped.field(wrapper.name).null_count < len(wrapped)
        ]
        if len(kinds) > 1:
            raise UnsupportedTableError(
                "delete block with ordering values of several types: compact the table with the "
                "engine that wrote it",
                path=path,
            )
        wrapper = kinds[0] if kinds else _WRAPPERS[0]
        fields.append(wrapper.read(wrapped.field(wrapper.name)))
    return tuple(fields)


def _content(keys: pa.Array, partition: str, ordering: Sequence[pa.Array]) -> bytes:
    """The content of a block; `ordering` has no nulls and is empty for natural order."""
    count = len(keys)
    if not ordering:
        ordering = [pa.repeat(pa.scalar(0, pa.int32()), count)]
    wrapped = [_wrapped(values) for values in ordering]
    if len(wrapped) == 1:
        (number, value_schema, values) = wrapped[0]
        branches = {"branch": number, "value": value_schema}
        columns = [values.to_pylist()]
    else:
        branches = {"branch": len(_WRAPPERS) + 1, "present": 1, "length": len(wrapped)}
        for place, (number, value_schema, _) in enumerate(wrapped):
            branches |= {f"branch_{place}": number, f"value_{place}": value_schema}
        branches["end"] = 0
        columns = [values.to_pylist() for _, _, values in wrapped]
    return encode_delete_content(_encode(keys.to_pylist(), partition, branches, columns))


def _encode(
    keys: list[str], partition: str, parts: Mapping[str, Any], columns: list[list[Any]]
) -> bytes:
    """The datum. Of `parts` an integer is written as it is, a schema takes the next column."""
    fields = [
        {"name": name, "type": "long" if isinstance(part, int) else part}
        for name, part in parts.items()
    ]
    fixed = {name: part for name, part in parts.items() if isinstance(part, int)}
    names = [name for name in parts if name not in fixed]
    records = [
        {
            "recordKey": key,
            "partitionPath": partition,
            "orderingVal": {**fixed, **dict(zip(names, values, strict=True))},
        }
        for key, *values in zip(keys, *columns, strict=True)
    ]
    ordering = {"type": "record", "name": "Ordering", "fields": fields}
    return encode_records(_list_schema(ordering), [{"deleteRecordList": records}])[0]


def _list_schema(ordering: Mapping[str, Any]) -> str:
    whole = schema("HoodieDeleteRecordList")
    record = whole["fields"][0]["type"]["items"]
    record["fields"][2]["type"] = ordering
    record["fields"][2].pop("default", None)
    return json.dumps(whole)


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """One branch of the union: which Arrow types it is written for, and how it is read."""

    name: str
    stored: pa.DataType
    holds: Callable[[pa.DataType], bool]
    read: Callable[[pa.Array], pa.Array]


def _as_is(array: pa.Array) -> pa.Array:
    return array


def _never(_: pa.DataType) -> bool:
    return False


def _is_long(data_type: pa.DataType) -> bool:
    # Hudi's ordering value of a timestamp or time of day is the number that stores it.
    return bool(
        types.is_int64(data_type) or types.is_timestamp(data_type) or types.is_time64(data_type)
    )


_WRAPPERS = (
    _Wrapper("BooleanWrapper", pa.bool_(), types.is_boolean, _as_is),
    _Wrapper(
        "IntWrapper",
        pa.int32(),
        lambda kind: types.is_int32(kind) or types.is_time32(kind),
        _as_is,
    ),
    _Wrapper("LongWrapper", pa.int64(), _is_long, _as_is),
    _Wrapper("FloatWrapper", pa.float32(), types.is_float32, _as_is),
    _Wrapper("DoubleWrapper", pa.float64(), types.is_float64, _as_is),
    _Wrapper("BytesWrapper", pa.binary(), types.is_binary, _as_is),
    _Wrapper("StringWrapper", pa.string(), types.is_string, _as_is),
    _Wrapper("DateWrapper", pa.int32(), types.is_date32, lambda days: days.cast(pa.date32())),
    _Wrapper(
        "DecimalWrapper",
        pa.binary(),
        types.is_decimal128,
        lambda unscaled: decimals_of_bytes(unscaled, _DECIMAL),
    ),
    _Wrapper("TimeMicrosWrapper", pa.int64(), _never, lambda micros: micros.cast(pa.time64("us"))),
    _Wrapper(
        "TimestampMicrosWrapper",
        pa.int64(),
        _never,
        lambda micros: micros.cast(pa.timestamp("us", "UTC")),
    ),
)
_LOCAL_DATE = _Wrapper("LocalDateWrapper", pa.int32(), _never, lambda days: days.cast(pa.date32()))


def _wrapped(values: pa.Array) -> tuple[int, Any, pa.Array]:
    """The number of the union's branch, its Avro type and what is stored in it."""
    for number, wrapper in enumerate(_WRAPPERS, start=1):
        if not wrapper.holds(values.type):
            continue
        if types.is_decimal(values.type):
            try:
                values = values.cast(_DECIMAL)
            except pa.ArrowInvalid as error:
                raise InvalidDataError("ordering value has too many digits", value=error) from error
            return number, "bytes", _shortest_bytes(values)
        avro = _AVRO_OF[wrapper.stored]
        return (
            number,
            avro,
            values if values.type == wrapper.stored else values.cast(wrapper.stored),
        )
    raise InvalidDataError("no delete block holds ordering values of this type", value=values.type)


def _shortest_bytes(decimals: pa.Array) -> pa.Array:
    """Unscaled numbers as Java's BigInteger.toByteArray gives them."""
    unscaled = [int(item.as_py().scaleb(_DECIMAL.scale)) for item in decimals]
    return pa.array(
        [
            number.to_bytes(
                (number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True
            )
            for number in unscaled
        ],
        pa.binary(),
    )


_AVRO_OF = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "bytes",
    pa.string(): "string",
}


@cache
def _read_schema() -> str:
    """The list's schema with the field of each wrapper named after the wrapper."""
    whole = json.loads(physical_schema(json.dumps(schema("HoodieDeleteRecordList"))))
    branches = whole["fields"][0]["type"]["items"]["fields"][2]["type"][1:]
    local_date = branches[-1]["fields"][0]["type"][1]["items"][-1]
    for record in (*branches, local_date):
        record["fields"][0]["name"] = record["name"]
    return json.dumps(whole)


@cache
def _read_type() -> pa.StructType:
    """What a list of such records is in Arrow."""
    single = [pa.field(wrapper.name, wrapper.stored) for wrapper in _WRAPPERS]
    local_date = pa.field(_LOCAL_DATE.name, _LOCAL_DATE.stored)
    several = pa.field(_ARRAY, pa.list_(pa.struct([*single, local_date])))
    return pa.struct(
        [
            ("recordKey", pa.string()),
            ("partitionPath", pa.string()),
            ("orderingVal", pa.struct([*single, several])),
        ]
    )
