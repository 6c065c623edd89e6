"""Which types a column may be given instead of its own: values that are stored are read as it.

Source: Iceberg's specification, "Schema Evolution", with the promotions of version 3. Other engines
may not read those of version 3 yet.
"""

from __future__ import annotations

from tideline.iceberg.metadata.field_type import Decimal, FieldType, is_unknown
from tideline.iceberg.metadata.partition_spec import Transform

_WIDER = {("int", "long"), ("float", "double")}
_SINCE_3 = {("date", "timestamp"), ("date", "timestamp_ns")}


def is_promotion(found: FieldType, wanted: FieldType, *, format_version: int) -> bool:
    """Whether a column of type `found` may become one of type `wanted`."""
    if isinstance(found, Decimal) and isinstance(wanted, Decimal):
        return found.scale == wanted.scale and found.precision <= wanted.precision
    if format_version >= 3 and (is_unknown(found) or _pair(found, wanted) in _SINCE_3):
        return True
    return _pair(found, wanted) in _WIDER


def keeps_values(transform: Transform, found: FieldType, wanted: FieldType) -> bool:
    """Whether a transform gives the same for a value after a promotion as before it."""
    if _pair(found, wanted) in _SINCE_3:
        return transform.name in ("year", "month", "day", "void")
    return True


def _pair(found: FieldType, wanted: FieldType) -> tuple[str, str]:
    return str(found), str(wanted)
