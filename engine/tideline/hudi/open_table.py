"""Opening a table reads `hoodie.properties` and nothing else."""

from __future__ import annotations

from tideline.clock import Clock, SystemClock
from tideline.hudi.metadata_table.reader import MetadataListing
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import load_table_config
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.table.table_properties import TableProperties
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

_SYSTEM_CLOCK = SystemClock()


def open_table(
    location: StoreLocation,
    clock: Clock = _SYSTEM_CLOCK,
    store: ObjectStore | None = None,
    config: TableConfig | None = None,
) -> HoodieTable:
    """Open the table at `location`, through `store` where that is open already, and with `config`
    where its properties were read already.

    Raises TableNotFoundError when there is none, CorruptTableError for unreadable properties
    and UnsupportedTableError for a table version that is not read.
    """
    store = store or location.open()
    properties = TableProperties(store, clock, config or load_table_config(store))
    return HoodieTable(location, properties, MetadataListing(store, clock).read)
