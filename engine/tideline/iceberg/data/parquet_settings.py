"""How the table wants its parquet files: codec, sizes and bloom filters, by Iceberg's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_property import whole_property
from tideline.parquet.encoding import BloomFilterSetting, ParquetCodec

_PREFIX = "write.parquet."
_CODECS = {"lz4": ParquetCodec.LZ4_RAW, "none": ParquetCodec.UNCOMPRESSED} | {
    codec.value: codec for codec in ParquetCodec
}


@dataclass(frozen=True, slots=True)
class ParquetSettings:
    """The `write.parquet.*` properties of a table."""

    codec: ParquetCodec
    codec_level: int | None
    row_group_bytes_max: int
    page_bytes_max: int
    page_rows_max: int
    dictionary_bytes_max: int
    bloom_filters: Mapping[int, BloomFilterSetting]

    @classmethod
    def of(cls, properties: Mapping[str, str], schema: Schema) -> ParquetSettings:
        """Raises ConfigError naming the property that cannot be read."""
        codec = properties.get(f"{_PREFIX}compression-codec", "zstd").lower()
        if codec not in _CODECS:
            raise ConfigError(f"unknown {_PREFIX}compression-codec", value=codec)
        level = properties.get(f"{_PREFIX}compression-level")
        return cls(
            _CODECS[codec],
            None if level is None else int(_parsed("compression-level", level, int)),
            _size(properties, "row-group-size-bytes", 128 * 1024 * 1024),
            _size(properties, "page-size-bytes", 1024 * 1024),
            _size(properties, "page-row-limit", 20_000),
            _size(properties, "dict-size-bytes", 2 * 1024 * 1024, least=0),
            _bloom_filters(properties, schema),
        )


def _bloom_filters(properties: Mapping[str, str], schema: Schema) -> dict[int, BloomFilterSetting]:
    enabled = f"{_PREFIX}bloom-filter-enabled.column."
    found: dict[int, BloomFilterSetting] = {}
    for key, value in properties.items():
        if not key.startswith(enabled) or value.lower() != "true":
            continue
        name = key.removeprefix(enabled)
        # Engines that fold case record the column as the user spelled it.
        field = schema.find(name) or schema.find(name, case_sensitive=False)
        if field is not None:
            rate = properties.get(f"{_PREFIX}bloom-filter-fpp.column.{name}", "0.01")
            values = properties.get(f"{_PREFIX}bloom-filter-ndv.column.{name}")
            found[field.field_id] = BloomFilterSetting(
                _parsed(f"bloom-filter-fpp.column.{name}", rate, float),
                None
                if values is None
                else int(_parsed(f"bloom-filter-ndv.column.{name}", values, int)),
            )
    return found


def _size(properties: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    return whole_property(properties, _PREFIX + name, default, least=least)


def _parsed(name: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(text)
    except ValueError as error:
        raise ConfigError(f"{_PREFIX}{name} is a number", value=text) from error
