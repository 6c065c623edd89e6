"""What a write does with its rows, by Iceberg's words and by those of Hudi that mean the same."""

from __future__ import annotations

from enum import StrEnum

from tideline.errors import ConfigError


class IcebergOperation(StrEnum):
    """One kind of write."""

    APPEND = "append"

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
}
