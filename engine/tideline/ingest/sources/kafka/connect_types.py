"""Types of fields as Kafka Connect and Debezium write them, and their values as Arrow's.

A field has a plain type, and often a name that says what the plain values mean: days, microseconds,
the bytes of a decimal. Both converters carry that name: the one for JSON in the schema beside each
value, the one for Avro as `connect.name`.

| name | plain | becomes |
|---|---|---|
| Decimal, with a scale | bytes, big-endian two's complement | decimal |
| VariableScaleDecimal | struct of scale and bytes | text |
| Date | days | date |
| Timestamp, MicroTimestamp, NanoTimestamp | ms, us, ns, of no zone | timestamp without a zone |
| ZonedTimestamp | text, ISO 8601 | timestamp in UTC |
| Time, MicroTime, NanoTime | ms, us, ns | text such as 12:30:00.000001 |
| others | | their plain type |

Source: Debezium's documentation of its connectors, Kafka Connect's logical types.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.log.data_block import decimals_of_bytes
from tideline.hudi.table.stored_value import list_offsets
from tideline.ingest.sources.kafka.decoded import NoRowError

_CONNECT = "org.apache.kafka.connect.data."
_TIMES = "io.debezium.time."
PRECISION_MAX = 38
"""Of decimals in tables."""
_SCALE_MAX = 200_000
"""More digits than a number of any database has. A scale is a few bytes that would become as many
digits as it says."""
_PLAIN = {
    "int8": pa.int32(),
    "int16": pa.int32(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_KINDS = {kind: name for name, kind in _PLAIN.items()}
_NS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_MOMENTS = {
    f"{_CONNECT}Timestamp": "ms",
    f"{_TIMES}Timestamp": "ms",
    f"{_TIMES}MicroTimestamp": "us",
    f"{_TIMES}NanoTimestamp": "ns",
}
_TIMES_OF_DAY = {
    f"{_CONNECT}Time": "ms",
    f"{_TIMES}Time": "ms",
    f"{_TIMES}MicroTime": "us",
    f"{_TIMES}NanoTime": "ns",
}
_DATES = (f"{_CONNECT}Date", f"{_TIMES}Date")
_ZONED = f"{_TIMES}ZonedTimestamp"
_DECIMAL = f"{_CONNECT}Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_BELOW_US = r"(\.\d{6})\d+"
_LOCAL, _IN_UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_YEARS = datetime.min, datetime.max


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A field's plain type, and what its values mean; `items` of an array, `fields` of a struct."""

    kind: str
    name: str = ""
    scale: int = 0
    precision: int = PRECISION_MAX
    fields: tuple[tuple[str, ConnectType], ...] = ()
    items: ConnectType | None = None

    @classmethod
    def of_json_schema(cls, schema: Mapping[str, Any]) -> ConnectType:
        """That of a schema as Connect's converter for JSON writes it. Raises NoRowError."""
        try:
            parameters = schema.get("parameters") or {}
            items = schema.get("items")
            names = Counter(str(item["field"]) for item in schema.get("fields") or ())
            if twice := [name for name, count in names.items() if count > 1]:
                raise NoRowError(f"the schema beside the value has the field {twice[0]} twice")
            return cls(
                str(schema["type"]),
                str(schema.get("name") or ""),
                int(parameters.get("scale", 0)),
                int(parameters.get("connect.decimal.precision", PRECISION_MAX)),
                tuple(
                    (str(item["field"]), cls.of_json_schema(item))
                    for item in schema.get("fields") or ()
                ),
                None if items is None else cls.of_json_schema(items),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NoRowError("the schema beside the value cannot be read") from error

    @classmethod
    def of_columns(cls, schema: Iterable[pa.Field]) -> ConnectType:
        """The type of rows with these columns, whose values say alone what they mean.

        Raises NoRowError for decimals: their bytes and their digits are both text.
        """
        return cls("struct", fields=tuple((item.name, cls._of(item)) for item in schema))

    @classmethod
    def _of(cls, item: pa.Field) -> ConnectType:
        kind = item.type
        if pa.types.is_decimal(kind):
            raise NoRowError(
                f"column {item.name}: decimals need the schemas of a connector; or declare a string"
                " or a double, and have it write these"
            )
        if pa.types.is_struct(kind):
            fields = [kind.field(number) for number in range(kind.num_fields)]
            return cls.of_columns(fields)
        if pa.types.is_list(kind):
            return cls("array", items=cls._of(kind.value_field))
        if pa.types.is_date(kind):
            return cls("int32", _DATES[0])
        if pa.types.is_timestamp(kind):
            return cls("string")
        return cls(_KINDS.get(kind, str(kind)))

    @property
    def plain(self) -> pa.DataType:
        """As JSON has it: bytes are text in base64. Raises NoRowError where Arrow's reader of JSON
        has no such type."""
        if self.kind == "struct":
            return pa.struct([pa.field(name, item.plain) for name, item in self.fields])
        if self.kind == "array" and self.items is not None:
            return pa.list_(self.items.plain)
        if self.kind not in _PLAIN:
            raise NoRowError(f"fields of the type {self.kind} are not read")
        return pa.string() if self.kind == "bytes" else _PLAIN[self.kind]

    def field(self, name: str) -> ConnectType | None:
        return next((item for known, item in self.fields if known == name), None)


def meant(array: pa.Array, kind: ConnectType) -> pa.Array:
    """Plain values as what they mean. Raises NoRowError for a value that has no such meaning."""
    try:
        return _meant(array, kind)
    except (pa.ArrowInvalid, ValueError, ArithmeticError) as error:
        raise NoRowError(f"a value of the type {kind.name or kind.kind}: {error}") from error


def _meant(array: pa.Array, kind: ConnectType) -> pa.Array:
    if kind.name == _VARIABLE:
        return _texts(array, _variable_decimal)
    if kind.kind == "struct":
        return _struct(array, kind)
    if kind.kind == "array" and kind.items is not None and pa.types.is_list(array.type):
        items = _meant(array.values, kind.items)
        return pa.ListArray.from_arrays(list_offsets(array), items)
    if kind.kind == "bytes":
        return _of_bytes(array, kind)
    if pa.types.is_integer(array.type):
        return _of_number(array, kind.name)
    if kind.name == _ZONED and pa.types.is_string(array.type):
        # Some connectors have nanoseconds.
        return pc.replace_substring_regex(array, _BELOW_US, r"\1").cast(_IN_UTC)
    return array


def _struct(array: pa.Array, kind: ConnectType) -> pa.Array:
    children, fields = [], []
    for item in array.type:
        child = array.field(item.name)
        known = kind.field(item.name)
        child = child if known is None else _meant(child, known)
        children.append(child)
        fields.append(pa.field(item.name, child.type))
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _of_bytes(array: pa.Array, kind: ConnectType) -> pa.Array:
    if pa.types.is_string(array.type):
        array = _unpacked(array)
    if kind.name != _DECIMAL or not pa.types.is_binary(array.type):
        return array
    if kind.scale < -PRECISION_MAX:
        raise ValueError(f"a scale of {kind.scale:,}")
    if kind.scale < 0:
        return pa.array(
            [None if item is None else _whole(item, -kind.scale) for item in array.to_pylist()],
            pa.decimal128(PRECISION_MAX, 0),
        )
    precision = min(max(kind.precision, kind.scale, 1), PRECISION_MAX)
    found = decimals_of_bytes(array, pa.decimal128(precision, kind.scale))
    found.validate(full=True)
    return found


def _whole(octets: bytes, zeros: int) -> Decimal:
    return Decimal(int.from_bytes(octets, "big", signed=True) * 10**zeros)


def _of_number(array: pa.Array, name: str) -> pa.Array:
    if name in _DATES:
        return _in_years(array.cast(pa.int32()).cast(pa.date32()))
    if name in _MOMENTS:
        unit = _MOMENTS[name]
        # What is less than a microsecond is left out; nothing else is.
        found = array.cast(pa.int64()).cast(pa.timestamp(unit)).cast(_LOCAL, safe=unit != "ns")
        return _in_years(found)
    if name in _TIMES_OF_DAY:
        unit = _TIMES_OF_DAY[name]
        return _texts(array, lambda found: _time_of_day(found, unit))
    return array


def _in_years(array: pa.Array) -> pa.Array:
    """Raises ValueError for what is later or earlier than most readers have years: Debezium writes
    such values for infinity."""
    first, last = (pa.scalar(end, _LOCAL).cast(array.type, safe=False) for end in _YEARS)
    if pc.any(pc.or_(pc.less(array, first), pc.greater(array, last))).as_py():
        raise ValueError("outside the years 1 to 9999")
    return array


def _texts(array: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    """Few columns are of such a type: their values are read by themselves."""
    found: Iterable[Any] = array.to_pylist()
    return pa.array([None if item is None else text(item) for item in found], pa.string())


def _time_of_day(value: int, unit: str) -> str:
    seconds, rest = divmod(abs(value) * _NS[unit], 1_000_000_000)
    # MySQL has times of less than none.
    sign = "-" if value < 0 else ""
    whole = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{whole}.{rest:09d}".rstrip("0") if rest else whole


def _variable_decimal(value: Mapping[str, Any]) -> str:
    octets = value["value"]
    if isinstance(octets, str):
        octets = base64.b64decode(octets, validate=True)
    scale = int(value["scale"])
    if abs(scale) > _SCALE_MAX:
        raise ValueError(f"a scale of {scale:,}")
    unscaled = int.from_bytes(octets, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((int(unscaled < 0), digits, -scale)):f}"


def _unpacked(array: pa.Array) -> pa.Array:
    """The bytes of text in base64: each distinct one once."""
    packed = array.dictionary_encode()
    octets = [base64.b64decode(item, validate=True) for item in packed.dictionary.to_pylist()]
    return pc.take(pa.array(octets, pa.binary()), packed.indices)
