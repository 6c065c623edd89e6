"""The formats of new data blocks, by the name Hudi gives them in settings. Needs no Arrow."""

from __future__ import annotations

from enum import Enum

from tideline.errors import ConfigError


class LogFormat(Enum):
    """How the rows of new data blocks are stored (Hudi: hoodie.logfile.data.block.format)."""

    AVRO = "avro"
    PARQUET = "parquet"

    @classmethod
    def parse(cls, text: str) -> LogFormat:
        """Raises ConfigError for a format that Tideline does not write, HFile among them."""
        try:
            return cls(text.strip().lower())
        except ValueError as error:
            raise ConfigError("log blocks are avro or parquet", value=text) from error

    def __str__(self) -> str:
        return self.value
