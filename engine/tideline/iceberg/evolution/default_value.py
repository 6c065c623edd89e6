"""Default values of columns as metadata has them: JSON single values (spec, Appendix D)."""

from __future__ import annotations

import math
import re
import uuid
from datetime import UTC, date, datetime, time
from decimal import Context, Inexact, InvalidOperation
from decimal import Decimal as Number
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.metadata.field_type import Decimal, FieldType, Fixed

_BITS = {"int": 31, "long": 63}
# Digits that a type does not have are refused, not rounded.
_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation])
_FINER_THAN_MICROSECONDS = re.compile(r"\.\d{7}")


def default_json(kind: FieldType, value: Any, column: str) -> Any:
    """A value, or its text, as the default of a column of type `kind`.

    Raises ConfigError naming the column when it is none of the type, and for types that have no
    default but null.
    """
    try:
        return _json(kind, value)
    except (ValueError, TypeError, ArithmeticError) as error:
        message = f"column {column} of type {kind} cannot have this default: {error}"
        raise ConfigError(message, value=value) from error


def _json(kind: FieldType, value: Any) -> Any:
    name = str(kind)
    match name:
        case "boolean":
            return _boolean(value)
        case "int" | "long":
            return _whole(value, _BITS[name])
        case "float" | "double":
            return _floating(value)
        case "date":
            return _day(value).isoformat()
        case "time":
            clock: time = value if isinstance(value, time) else time.fromisoformat(_fine(value))
            return clock.isoformat()
        case "timestamp" | "timestamp_ns":
            return _moment(value, has_zone=False)
        case "timestamptz" | "timestamptz_ns":
            return _moment(value, has_zone=True)
        case "string":
            return _text(value)
        case "uuid":
            return str(value if isinstance(value, uuid.UUID) else uuid.UUID(value))
        case "binary":
            return _bytes(value).hex()
    if isinstance(kind, Fixed):
        body = _bytes(value)
        if len(body) != kind.length:
            raise ValueError(f"it has {len(body)} bytes")
        return body.hex()
    if isinstance(kind, Decimal):
        return _decimal(kind, value)
    raise TypeError("its default is always null")


def _boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError("it is true or false")
    return value


def _whole(value: Any, bits: int) -> int:
    if isinstance(value, bool | float):
        raise TypeError("it is a whole number")
    number = int(value)
    if not -(2**bits) <= number < 2**bits:
        raise ValueError("it is out of range")
    return number


def _floating(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError("it is a finite number")
    return number


def _day(value: Any) -> date:
    if isinstance(value, datetime):
        raise TypeError("it is a day")
    return value if isinstance(value, date) else date.fromisoformat(value)


def _moment(value: Any, *, has_zone: bool) -> str:
    is_given = isinstance(value, datetime)
    moment: datetime = value if is_given else datetime.fromisoformat(_fine(value))
    if not has_zone:
        if moment.tzinfo is not None:
            raise ValueError("it has no zone")
        return moment.isoformat()
    if moment.tzinfo is None:
        raise ValueError("it has a zone, such as +00:00")
    return moment.astimezone(UTC).isoformat()


def _fine(text: str) -> str:
    if _FINER_THAN_MICROSECONDS.search(text):
        raise ValueError("it has no more than microseconds")
    return text


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is text")
    return value


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else bytes.fromhex(value)


def _decimal(kind: Decimal, value: Any) -> str:
    if isinstance(value, bool | float):
        raise TypeError("it is a decimal number: give it as text")
    try:
        exact = Number(value).quantize(Number(1).scaleb(-kind.scale), context=_EXACT)
    except InvalidOperation:
        raise ValueError("it is no such number") from None
    except Inexact:
        raise ValueError("it has more digits than the type") from None
    if len(exact.as_tuple().digits) > kind.precision:
        raise ValueError("it has more digits than the type")
    return f"{exact:f}"
