"""The tables below a folder or a prefix, and how each of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tideline.errors import ConfigError, TidelineError, error_kind
from tideline.hudi.table.partition_metadata import METADATA_DIRECTORY
from tideline.lake_table import LakeTable
from tideline.report.fleet_page import FleetRow
from tideline.report.level import Level
from tideline.report.table_facts import TableFacts, facts_of
from tideline.report.time_axis import at_utc
from tideline.storage.local.listing import list_folders
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.wording import size_text

COLUMNS = ("rows", "size", "stored", "files", "newest write", "core-seconds")
DEPTH_MAX = 4
TABLES_MAX = 500


@dataclass(frozen=True, slots=True)
class Search:
    """The tables of a place, and the folders that could not be looked into, with the reasons."""

    uris: tuple[str, ...]
    skipped: tuple[str, ...] = ()


def existing_place(uri: str, storage: Mapping[str, str]) -> StoreLocation:
    """Where `uri` leads. Raises ConfigError for a local folder that is not there."""
    location = StoreLocation.of(uri, storage)
    if location.scheme == "file" and not Path(location.uri.removeprefix("file://")).is_dir():
        raise ConfigError("there is no such folder", path=location.uri)
    return location


def find_tables(uri: str, storage: Mapping[str, str]) -> Search:
    """The Hudi tables at `uri` and below it, `DEPTH_MAX` folders deep, `TABLES_MAX` at most.

    Raises StorageUnavailableError, ConfigError for a place that cannot be.
    """
    location = existing_place(uri, storage)
    skipped: list[str] = []
    paths = islice(_tables_below(location.open(), "", DEPTH_MAX, skipped), TABLES_MAX)
    root = location.uri.rstrip("/")
    return Search(tuple(f"{root}/{path}".rstrip("/") for path in paths), tuple(skipped))


def look_at(uri: str, storage: Mapping[str, str]) -> TableFacts | TidelineError:
    """What is known of a table, or why nothing is."""
    try:
        return facts_of(LakeTable.open(uri, storage_options=storage))
    except TidelineError as error:
        return error


def fleet_row(uri: str, found: TableFacts | TidelineError, link: str) -> FleetRow:
    """The table in a row of the fleet."""
    if isinstance(found, TidelineError):
        return FleetRow(uri, Level.BROKEN, str(found), link, reason=error_kind(found))
    level, line = found.health()
    states, done = found.life.states, found.life.done
    newest = next(
        (
            candidate
            for candidate in reversed(done)
            if candidate.rows_inserted or candidate.rows_updated
        ),
        None,
    )
    facts = {
        "rows": f"{states[-1].rows:,}" if states else "",
        "size": size_text(found.size_bytes),
        "stored": size_text(states[-1].stored_bytes) if states else "",
        "files": f"{found.base_files:,}",
        "newest write": at_utc(newest.at_ms) if newest else "never",
        "core-seconds": f"{sum(candidate.core_seconds for candidate in done):,.0f}",
    }
    return FleetRow(found.name, level, line, link, facts)


def _tables_below(store: ObjectStore, folder: str, depth: int, skipped: list[str]) -> Iterator[str]:
    """Folders with a timeline; what is in a table is not looked at. Adds to `skipped`."""
    try:
        names, others = list_folders(store, folder)
    except TidelineError as error:
        if not folder:
            raise
        skipped.append(str(error))
        return
    skipped += (f"{path} is no folder of this place" for path in others)
    if any(name.rpartition("/")[2] == METADATA_DIRECTORY for name in names):
        yield folder
        return
    if depth:
        for name in names:
            yield from _tables_below(store, name, depth - 1, skipped)
