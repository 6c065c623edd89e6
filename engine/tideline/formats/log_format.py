"""How the rows of new log data blocks are stored."""

from __future__ import annotations

from enum import Enum

from tideline.errors import ConfigError


class LogFormat(Enum):
    """The format of a data block's content (Hudi: hoodie.logfile.data.block.format)."""

    AVRO = "avro"
    PARQUET = "parquet"

    @classmethod
    def parse(cls, text: str) -> LogFormat:
        """Raises ConfigError for a format that Tideline does not write, HFile among them."""
        try:
            return cls(text.strip().lower())
        except ValueError as error:
            raise ConfigError("log blocks are avro or parquet", value=text) from error
