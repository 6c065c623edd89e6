"""How much the table wants to know of each column: nothing, counts, or bounds cut or whole.

1. `write.metadata.metrics.default` holds for every column. Without it, it is truncate(16), and in
   schemas with more fields than `write.metadata.metrics.max-inferred-column-defaults` only the
   first so many leaves have any, those of outer structs first.
2. Columns of the sort order have bounds, regardless of the default.
3. `write.metadata.metrics.column.<name>` overrides both.

Source: Iceberg's `MetricsConfig`, `MetricsModes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tideline.iceberg.metadata.field_type import NestedField, parts_of, walk
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.table_property import whole_property

_DEFAULT = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_INFERRED_MAX = "write.metadata.metrics.max-inferred-column-defaults"
_INFERRED_MAX_DEFAULT = 100
_TRUNCATE = re.compile(r"truncate\((\d+)\)", re.IGNORECASE)
_KEEPS_ORDER = ("identity", "truncate", "year", "month", "day", "hour")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """What a column's metrics hold. `length_max` is 0 without bounds, None for whole ones."""

    has_counts: bool
    length_max: int | None

    @property
    def has_bounds(self) -> bool:
        return self.length_max != 0

    @classmethod
    def parse(cls, text: str, default: MetricsMode) -> MetricsMode:
        """A mode as properties spell it; anything else is the default, as Iceberg takes it."""
        match text.strip().lower():
            case "none":
                return NONE
            case "counts":
                return COUNTS
            case "full":
                return FULL
        found = _TRUNCATE.fullmatch(text.strip())
        return cls(True, int(found[1])) if found and int(found[1]) else default


NONE = MetricsMode(False, 0)
COUNTS = MetricsMode(True, 0)
FULL = MetricsMode(True, None)
TRUNCATED = MetricsMode(True, 16)


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The mode of every column."""

    default: MetricsMode
    modes: Mapping[int, MetricsMode]

    @classmethod
    def of(cls, properties: Mapping[str, str], schema: Schema, order: SortOrder) -> MetricsConfig:
        """What a table's properties ask for. Raises ConfigError."""
        default, modes = TRUNCATED, dict[int, MetricsMode]()
        if _DEFAULT in properties:
            default = MetricsMode.parse(properties[_DEFAULT], TRUNCATED)
        else:
            limit = whole_property(properties, _INFERRED_MAX, _INFERRED_MAX_DEFAULT)
            if limit < 0:
                # Iceberg takes no notice of it either.
                limit = _INFERRED_MAX_DEFAULT
            if sum(1 for _ in walk(schema.fields)) > limit:
                default = NONE
                chosen = zip(_outer_first(schema.fields), range(limit), strict=False)
                modes = {number: TRUNCATED for number, _ in chosen}
        sorted_mode = default if default.has_bounds else TRUNCATED
        modes |= {
            field.source_id: sorted_mode
            for field in order.fields
            if field.transform.name in _KEEPS_ORDER
        }
        for key, text in properties.items():
            found = schema.find(key.removeprefix(_COLUMN)) if key.startswith(_COLUMN) else None
            if found is not None:
                modes[found.field_id] = MetricsMode.parse(text, default)
        return cls(default, modes)

    def mode(self, field_id: int) -> MetricsMode:
        return self.modes.get(field_id, self.default)


def _outer_first(fields: Iterable[NestedField]) -> Iterator[int]:
    fields = list(fields)
    for field in fields:
        if not parts_of(field.type):
            yield field.field_id
    for field in fields:
        yield from _outer_first(parts_of(field.type))
