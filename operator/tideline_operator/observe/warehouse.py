"""The tables of a LakeCatalog, listed: those of a catalog, or of a folder."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.iceberg.table.catalog_name import with_catalogs
from tideline.iceberg.table.folder_search import find_tables
from tideline.iceberg.table.found_table import FoundTable
from tideline_operator.decide.planned_operation import catalog_entry
from tideline_operator.observe.observation import OpenStore
from tideline_operator.resources.resolved import ResolvedTable


def list_warehouse(
    place: ResolvedTable,
    open_store: OpenStore,
    *,
    credentials: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    proxy_url: str | None = None,
) -> tuple[FoundTable, ...]:
    """Every table, by name; `place` stands for the catalog (`LakeCatalog.place`). A catalog is
    opened with `credentials`, or those of the environment, has `timeout_s` for each answer and is
    reached by way of the proxy.

    Raises ConfigError and StorageUnavailableError.
    """
    entry = catalog_entry(place.spec.catalog)
    if entry is None:
        return find_tables(open_store(place, place.location))
    with with_catalogs():
        from tideline.iceberg.table.catalog_search import list_tables
        from tideline.iceberg.table.catalog_table import TIMEOUT_S, open_catalog
    catalog = open_catalog(
        entry.catalog,
        dict(entry.properties),
        credentials=credentials,
        timeout_s=timeout_s or TIMEOUT_S,
        proxy_url=proxy_url,
    )
    return list_tables(catalog)
