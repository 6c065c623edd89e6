"""What a write does with its rows, by Iceberg's words and by those of Hudi that mean the same."""

from __future__ import annotations

from enum import StrEnum

from tideline.errors import ConfigError


class IcebergOperation(StrEnum):
    """One kind of write. Rows come beside others; in the places of those with their keys; they say
    which keys go; or they come in the places of all rows, of those that match a condition, or of
    those of their partitions."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"

    @property
    def takes_rows_away(self) -> bool:
        """Whether rows go that no given row replaces."""
        return self not in (IcebergOperation.APPEND, IcebergOperation.UPSERT)

    @property
    def is_keyed(self) -> bool:
        """Whether rows are found by key."""
        return self in (IcebergOperation.UPSERT, IcebergOperation.DELETE)

    @classmethod
    def named(cls, given: str | None, *, default: IcebergOperation) -> IcebergOperation:
        """Raises ConfigError for what is none."""
        if given is None:
            return default
        word = str(given).lower()
        try:
            return cls(_HUDI_WORDS.get(word, word))
        except ValueError:
            known = ", ".join([*cls, *_HUDI_WORDS])
            raise ConfigError(f"operation is one of {known}", value=given) from None


_HUDI_WORDS = {
    "insert": "append",
    "bulk_insert": "append",
    "insert_overwrite_table": "overwrite",
    "insert_overwrite": "overwrite_partitions",
}
