"""The tables below a folder or a prefix, and how each of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tideline.errors import TidelineError
from tideline.hudi.table.partition_metadata import METADATA_DIRECTORY
from tideline.lake_table import LakeTable
from tideline.report.fleet_page import FleetRow
from tideline.report.html import ago
from tideline.report.level import Level
from tideline.report.table_facts import TableFacts, facts_of
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.wording import size_text

COLUMNS = ("rows", "size", "stored", "files", "newest write", "core-seconds")
DEPTH_MAX = 4
TABLES_MAX = 500


def find_tables(uri: str, storage: Mapping[str, str]) -> tuple[str, ...]:
    """The Hudi tables at `uri` and below it, `DEPTH_MAX` folders deep, `TABLES_MAX` at most.

    Raises StorageUnavailableError, ConfigError for a place that cannot be.
    """
    location = StoreLocation.of(uri, storage)
    store = location.open()
    found = []
    for path in _tables_below(store, "", DEPTH_MAX):
        found.append(f"{location.uri.rstrip('/')}/{path}".rstrip("/"))
        if len(found) == TABLES_MAX:
            break
    return tuple(found)


def look_at(uri: str, storage: Mapping[str, str]) -> TableFacts | TidelineError:
    """What is known of a table, or why nothing is."""
    try:
        return facts_of(LakeTable.open(uri, storage_options=storage))
    except TidelineError as error:
        return error


def fleet_row(uri: str, found: TableFacts | TidelineError, link: str) -> FleetRow:
    """The table in a row of the fleet."""
    if isinstance(found, TidelineError):
        return FleetRow(uri, Level.BROKEN, str(found), link)
    level, line = found.health()
    states, done = found.life.states, found.life.done
    newest = next((one for one in reversed(done) if one.rows_inserted or one.rows_updated), None)
    facts = {
        "rows": f"{states[-1].rows:,}" if states else "",
        "size": size_text(found.size_bytes),
        "stored": size_text(states[-1].stored_bytes) if states else "",
        "files": f"{found.base_files:,}",
        "newest write": ago(found.at_ms - newest.at_ms) if newest else "never",
        "core-seconds": f"{sum(one.core_seconds for one in done):,.0f}",
    }
    return FleetRow(found.name, level, line, link, facts)


def _tables_below(store: ObjectStore, folder: str, depth: int) -> Iterator[str]:
    """Folders with a timeline; what is in a table is not looked at."""
    names: Sequence[str] = store.list_directory(folder).directories
    if any(name.rpartition("/")[2] == METADATA_DIRECTORY for name in names):
        yield folder
        return
    if depth:
        for name in names:
            yield from _tables_below(store, name, depth - 1)
