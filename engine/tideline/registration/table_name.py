"""How a metastore names tables. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a metastore, in lower case, as metastores keep names."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"
