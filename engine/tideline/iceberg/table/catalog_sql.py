"""PyIceberg's SQL catalog, whose metadata files Tideline reads. Needs the extra `iceberg`."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tideline.iceberg.table.catalog_files import OwnFiles, check_overridden

check_overridden(SqlCatalog, "_convert_orm_to_iceberg")


class BoundedSqlCatalog(OwnFiles, SqlCatalog):
    """A database with the locations of metadata files."""

    def _convert_orm_to_iceberg(self, orm_table: Any) -> Table:
        location = orm_table.metadata_location
        if not location:
            raise NoSuchTableError("the catalog knows no metadata of this table")
        namespace = Catalog.identifier_to_tuple(orm_table.table_namespace)
        return self._table_at((*namespace, orm_table.table_name), location)
