"""An Iceberg table as another engine leaves it in the bucket, written and read from outside.

PyIceberg writes it through another catalog; then the newest metadata file is given the name it
would have in a table that is a folder. From there on no catalog knows the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from e2e.harness.lake import Lake, Row

BATCHES: list[list[Row]] = [
    [{"id": batch * 10 + number, "name": f"row {batch}.{number}"} for number in range(10)]
    for batch in range(6)
]
"""What tests append, batch by batch, to have small files."""


class IcebergFolder:
    """The table at `path` in a lake's bucket."""

    def __init__(self, lake: Lake, path: str) -> None:
        self._lake = lake
        self._path = path
        self.location = f"s3://{lake.bucket}/{path}"

    def write(self, batches: Iterable[list[Row]], workspace: Path) -> None:
        """Make the table, with one append for each batch of rows."""
        connection = self._lake.minio.iceberg_properties()
        catalog = SqlCatalog("outside", uri=f"sqlite:///{workspace}/catalog.db", **connection)
        catalog.create_namespace_if_not_exists("lake")
        name = self._path.replace("/", "_")
        tables = [pa.Table.from_pylist([dict(row) for row in rows]) for rows in batches]
        table = catalog.create_table(f"lake.{name}", tables[0].schema, self.location)
        for rows in tables:
            table.append(rows)
        newest = table.metadata_location.removeprefix(f"s3://{self._lake.bucket}/")
        body = self._lake.minio.client().get_object(self._lake.bucket, newest).read()
        self._lake.put(f"{self._path}/metadata/v1.metadata.json", body)
        self._lake.put(f"{self._path}/metadata/version-hint.text", b"1")

    def open(self) -> StaticTable:
        """The table's newest version, as PyIceberg reads it."""
        hint = f"{self._path}/metadata/version-hint.text"
        version = self._lake.minio.client().get_object(self._lake.bucket, hint).read().decode()
        location = f"{self.location}/metadata/v{version}.metadata.json"
        return StaticTable.from_metadata(location, self._lake.minio.iceberg_properties())

    def rows(self) -> list[dict[str, Any]]:
        """All rows, by id."""
        found: list[dict[str, Any]] = self.open().scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: row["id"])
