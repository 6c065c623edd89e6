"""What all new data files of a table have in common; picklable."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.metadata.schema import Schema


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Their columns, and how these are stored and described."""

    schema_id: int
    fields: tuple[NestedField, ...]
    parquet: ParquetSettings
    metrics: MetricsConfig
    sort_order_id: int

    @property
    def schema_json(self) -> str:
        """What readers of Iceberg's own find in the footer."""
        return json.dumps(Schema(self.schema_id, self.fields).json(), separators=(",", ":"))
