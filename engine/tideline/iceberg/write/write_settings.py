"""The table properties that a write follows: `write.*` and `commit.*`, each obeyed or refused.

Options of one write have the same names and go before the table's own. A property that says where
the table keeps its files is the table's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import TARGET_SIZE, TARGET_SIZE_BYTES, whole_property

_OPTIONS = frozenset(
    {
        TARGET_SIZE,
        "write.distribution-mode",
        "write.parquet.compression-codec",
        "write.parquet.compression-level",
        "write.parquet.row-group-size-bytes",
        "write.parquet.page-size-bytes",
        "write.parquet.page-row-limit",
        "write.parquet.dict-size-bytes",
        "write.metadata.metrics.default",
        "write.metadata.metrics.max-inferred-column-defaults",
        "write.summary.partition-limit",
        "write.delete.mode",
        "write.delete.isolation-level",
        "write.delete.granularity",
        "write.merge.distribution-mode",
        "write.merge.mode",
        "write.merge.isolation-level",
        "write.update.mode",
        "write.update.isolation-level",
        "commit.manifest-merge.enabled",
        "commit.manifest.target-size-bytes",
        "commit.manifest.min-count-to-merge",
        "commit.retry.num-retries",
        "commit.retry.min-wait-ms",
        "commit.retry.max-wait-ms",
        "commit.retry.total-timeout-ms",
    }
)
_COLUMN_OPTIONS = ("write.parquet.bloom-filter-", "write.metadata.metrics.column.")
_PROGRAMS = ("write.location-provider.impl", "write.py-location-provider.impl")
_MODES = ("copy-on-write", "merge-on-read")
_DISTRIBUTIONS = ("none", "hash", "range")
_ISOLATION = ("serializable", "snapshot")
_ALLOWED = MappingProxyType(
    {
        "write.format.default": ("parquet",),
        "write.parquet.page-version": ("v1",),
        "write.manifest-lists.enabled": ("true",),
        "write.distribution-mode": _DISTRIBUTIONS,
        "write.merge.distribution-mode": _DISTRIBUTIONS,
        "write.delete.mode": _MODES,
        "write.delete.isolation-level": _ISOLATION,
        "write.delete.granularity": ("partition", "file"),
        "write.merge.mode": _MODES,
        "write.merge.isolation-level": _ISOLATION,
        "write.update.mode": _MODES,
        "write.update.isolation-level": _ISOLATION,
    }
)


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """What holds for one write; `properties` are the table's with the options of the write."""

    properties: Mapping[str, str]
    target_bytes: int

    def applied(self, metadata: TableMetadata) -> TableMetadata:
        """The table with these properties."""
        return replace(metadata, properties=self.properties)

    def merges_on_read(self, row_level: str, metadata: TableMetadata) -> bool:
        """Whether rows that go stay in their files, and delete files say so, in a `delete`, a
        `merge` or an `update`: not in tables of version 1, which have no such files."""
        mode = one_of(self.properties, f"write.{row_level}.mode", _MODES)
        return mode == "merge-on-read" and metadata.format_version > 1

    def ignores_new_rows(self, row_level: str) -> bool:
        """Whether rows that come while one of these is at work are left alone."""
        level = one_of(self.properties, f"write.{row_level}.isolation-level", _ISOLATION)
        return level == "snapshot"

    @classmethod
    def of(cls, metadata: TableMetadata, options: Mapping[str, str]) -> WriteSettings:
        """Raises ConfigError naming an option or property that is not obeyed."""
        for name in options:
            if name not in _OPTIONS and not name.startswith(_COLUMN_OPTIONS):
                raise ConfigError("a write of an Iceberg table has no such option", value=name)
        properties = {**metadata.properties, **options}
        for name in _PROGRAMS:
            if properties.get(name):
                message = f"tables with the property {name} are not written: remove it"
                raise UnsupportedTableError(message, table=metadata.location, value=name)
        for name, allowed in _ALLOWED.items():
            one_of(properties, name, allowed)
        return cls(properties, whole_property(properties, TARGET_SIZE, TARGET_SIZE_BYTES, least=1))


def one_of(properties: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """A property's value in lower case, the first that is allowed where it is not given.

    Raises ConfigError for any other.
    """
    value = properties.get(name, allowed[0]).lower()
    if value not in allowed:
        raise ConfigError(f"the property {name} is {' or '.join(allowed)} here", value=value)
    return value
