"""A new table at a location: the place is prepared and tried, then the table is created in it.

1. The place can hold a table, its bucket is there, and no other table is at, above or below it.
2. The store keeps its word: conditional writes are tried (on object stores).
3. One conditional create of `hoodie.properties` (`create_table`).

What fails takes the folders with it that it made. Dying before 3 leaves at most empty folders and
a probe object, dying after it an empty table.
"""

from __future__ import annotations

from tideline.clock import Clock
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.location_conflict import refuse_table_conflict
from tideline.storage.location import StoreLocation
from tideline.storage.new_root import prepared_root
from tideline.storage.probe.run import probe_conditional_writes


def create_at(location: StoreLocation, definition: TableDefinition, clock: Clock) -> HoodieTable:
    """Create the table at `location`.

    Raises TableExistsError when a Hudi table is there already, ConfigError for a definition or a
    place that cannot be and for another table at, above or below the location.
    """
    store = location.open()
    with prepared_root(location):
        refuse_table_conflict(location)
        probe_conditional_writes(store)
        return open_table(location, clock, store, create_table(store, definition, clock))
