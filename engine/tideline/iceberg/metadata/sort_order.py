"""Sort orders (spec, "Sorting")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import CorruptTableError
from tideline.iceberg.metadata.partition_spec import IDENTITY, Transform, source_id


@dataclass(frozen=True, slots=True)
class SortField:
    """One key: a transform of a column, its direction and where nulls go."""

    source_id: int
    transform: Transform = IDENTITY
    is_descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Sort keys, the most significant first; order 0 is "unsorted"."""

    order_id: int = 0
    fields: tuple[SortField, ...] = ()

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> SortOrder:
        """From table metadata. Raises CorruptTableError."""
        try:
            return cls(int(value["order-id"]), tuple(_field(field) for field in value["fields"]))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CorruptTableError(f"a sort order lacks {error}", value=dict(value)) from error

    def json(self) -> dict[str, Any]:
        """The JSON that `parse` reads back."""
        return {
            "order-id": self.order_id,
            "fields": [
                {
                    "transform": str(field.transform),
                    "source-id": field.source_id,
                    "direction": "desc" if field.is_descending else "asc",
                    "null-order": "nulls-first" if field.nulls_first else "nulls-last",
                }
                for field in self.fields
            ],
        }


def _field(value: Mapping[str, Any]) -> SortField:
    return SortField(
        source_id=source_id(value),
        transform=Transform.parse(value["transform"]),
        is_descending=value["direction"].lower() == "desc",
        nulls_first=value["null-order"].lower() == "nulls-first",
    )
