"""What all new data files of a table have in common; picklable."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tideline.iceberg.data.arrow_schema import stored_schema
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.metadata.field_type import CarriedVariant, NestedField, walk_leaves
from tideline.iceberg.metadata.schema import Schema
from tideline.parquet.column_encoding import leaf_columns
from tideline.parquet.encoding import BloomFilterSetting, ParquetEncoding


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Their columns, and how these are stored and described."""

    schema_id: int
    fields: tuple[NestedField, ...]
    parquet: ParquetSettings
    metrics: MetricsConfig
    sort_order_id: int

    @property
    def encoding(self) -> ParquetEncoding:
        """Of new data files."""
        settings = self.parquet
        return ParquetEncoding(
            settings.codec,
            settings.codec_level,
            settings.page_bytes_max,
            settings.page_rows_max,
            settings.dictionary_bytes_max,
            decimals_as_integers=True,
            bloom_filters=self._bloom_filters(),
            variants=frozenset(
                field.name for field in self.fields if isinstance(field.type, CarriedVariant)
            ),
        )

    def _bloom_filters(self) -> dict[str, BloomFilterSetting]:
        wanted = self.parquet.bloom_filters
        if not wanted:
            return {}
        leaves = zip(
            walk_leaves(self.fields), leaf_columns(stored_schema(self.fields)), strict=True
        )
        return {
            path: wanted[number]
            for (number, kind, _), (path, _) in leaves
            if number in wanted and not isinstance(kind, CarriedVariant)
        }

    @property
    def schema_json(self) -> str:
        """What readers of Iceberg's own find in the footer."""
        return json.dumps(Schema(self.schema_id, self.fields).json(), separators=(",", ":"))
