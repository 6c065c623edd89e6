"""Single values as bytes: the bounds in manifests (spec, Appendix D, "Binary single-value
serialization").

Values are Iceberg's internal ones, see partition_spec.py.
"""

from __future__ import annotations

import decimal
import struct
import uuid
from typing import Any

from tideline.errors import CorruptTableError
from tideline.iceberg.metadata.field_type import Decimal, FieldType, Fixed

_FORMATS = {
    "boolean": "<?",
    "int": "<i",
    "date": "<i",
    "long": "<q",
    "time": "<q",
    "timestamp": "<q",
    "timestamptz": "<q",
    "timestamp_ns": "<q",
    "timestamptz_ns": "<q",
    "float": "<f",
    "double": "<d",
}
# Bounds written before a column was promoted are shorter than its type is now.
_NARROWER = {("long", 4): "<i", ("double", 4): "<f", ("timestamp", 4): "<i"}


def encode_value(type_: FieldType, value: Any) -> bytes:
    """A value's bytes. Raises ValueError for a type that has none."""
    if isinstance(type_, Decimal):
        unscaled = int(decimal.Decimal(value).scaleb(type_.scale, _WIDE))
        return unscaled.to_bytes(
            (unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True
        )
    if isinstance(type_, Fixed):
        return bytes(value)
    name = str(type_)
    if name in _FORMATS:
        return struct.pack(_FORMATS[name], value)
    if name == "string":
        return str(value).encode()
    if name == "uuid":
        return uuid.UUID(str(value)).bytes
    if name == "binary":
        return bytes(value)
    raise ValueError(f"{name} has no single-value form")


def decode_value(type_: FieldType, body: bytes) -> Any:
    """The value of some bytes. Raises CorruptTableError when they do not fit the type."""
    try:
        if isinstance(type_, Decimal):
            unscaled = int.from_bytes(body, "big", signed=True)
            return decimal.Decimal(unscaled).scaleb(-type_.scale, _WIDE)
        if isinstance(type_, Fixed):
            return bytes(body)
        name = str(type_)
        if name in _FORMATS:
            code = _NARROWER.get((name, len(body)), _FORMATS[name])
            value = struct.unpack(code, body)[0]
            return value * 86_400_000_000 if (name, len(body)) == ("timestamp", 4) else value
        if name == "string":
            return body.decode()
        return uuid.UUID(bytes=bytes(body)) if name == "uuid" else bytes(body)
    except (struct.error, ValueError) as error:
        message = f"a bound is not of type {type_}: {error}"
        raise CorruptTableError(message, value=body.hex()) from error


_WIDE = decimal.Context(prec=76)
