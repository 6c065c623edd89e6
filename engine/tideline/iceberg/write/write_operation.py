"""What a write does with its rows, by Iceberg's words and by those of Hudi that mean the same."""

from __future__ import annotations

from enum import StrEnum

from tideline.errors import ConfigError


class IcebergOperation(StrEnum):
    """One kind of write. Rows come beside others; in the places of those with their keys; they say
    which keys go; or they come in the places of all rows, of those that match a condition, or of
    those of their partitions. An update has no rows: it gives columns of stored ones new values."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    UPDATE = "update"

    @property
    def takes_rows(self) -> bool:
        """Whether rows are given to it."""
        return self is not IcebergOperation.UPDATE

    @property
    def takes_rows_away(self) -> bool:
        """Whether rows go that no given row replaces."""
        stays = (IcebergOperation.APPEND, IcebergOperation.UPSERT, IcebergOperation.UPDATE)
        return self not in stays

    @property
    def is_keyed(self) -> bool:
        """Whether rows are found by key."""
        return self in (IcebergOperation.UPSERT, IcebergOperation.DELETE)

    def of_snapshot(self, found: str) -> str:
        """The operation of its snapshot, as Iceberg's Java has it, where its files alone would make
        it `found`: a delete or an update that finds no row adds none."""
        match self:
            case IcebergOperation.OVERWRITE_PARTITIONS:
                return "overwrite"
            case IcebergOperation.DELETE:
                return "delete" if found == "append" else found
            case IcebergOperation.UPDATE:
                return "overwrite" if found == "append" else found
        return found

    @classmethod
    def named(cls, given: str | None, *, default: IcebergOperation) -> IcebergOperation:
        """One that takes rows. Raises ConfigError for what is none."""
        if given is None:
            return default
        word = str(given).lower()
        known = [operation for operation in cls if operation.takes_rows]
        wanted = _HUDI_WORDS.get(word, word)
        if wanted not in known:
            listed = ", ".join([*known, *_HUDI_WORDS])
            raise ConfigError(f"operation is one of {listed}", value=given)
        return cls(wanted)


_HUDI_WORDS = {
    "insert": "append",
    "bulk_insert": "append",
    "insert_overwrite_table": "overwrite",
    "insert_overwrite": "overwrite_partitions",
}
