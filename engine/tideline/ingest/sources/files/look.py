"""Looking at a landing prefix: the listing of a store as files that arrived. Reads only."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tideline.errors import ConfigError
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import (
    QUARANTINE,
    FileFormat,
    FileListing,
    describe_noted,
)
from tideline.storage.local.listing import list_regular
from tideline.storage.object_store import ObjectStore

_PATTERN = re.compile(r"[*?\[]")
LOCAL_SETTLE_MS = 1_000
"""On a local folder a file changed within the last moments may still be being written; other stores
show only whole objects."""


def list_arrived(store: ObjectStore, file_format: FileFormat) -> FileListing:
    """List the landing prefix that is the root of `store`; empty when it does not exist.

    Raises StorageUnavailableError, and ConfigError for a local file, a pattern of names and the
    folder of a table.
    """
    found, irregular = list_regular(store)
    return _on(store, FileListing.of(found, file_format, irregular))


def list_arrived_after(
    store: ObjectStore, file_format: FileFormat, after: str, is_known: Callable[[ArrivedFile], bool]
) -> FileListing:
    """List what sorts after the path `after`; everything where that is empty.

    One request where nothing is new: notes about files in the quarantine are only looked for when
    there is a file that is not known. Raises StorageUnavailableError.
    """
    if not after:
        return list_arrived(store, file_format)
    found, irregular = list_regular(store, after)
    listing = FileListing.of(found, file_format, irregular, after=after)
    has_notes = after < f"{QUARANTINE}/"
    if has_notes or all(map(is_known, listing.files)):
        return _on(store, listing)
    noted = (*found, *store.list(QUARANTINE))
    return _on(store, FileListing.of(noted, file_format, irregular, after=after))


def describe_quarantine(store: ObjectStore) -> str | None:
    """What waits in the quarantine of a landing prefix; None when nothing does."""
    return describe_noted(store.list(QUARANTINE))


def _on(store: ObjectStore, listing: FileListing) -> FileListing:
    if listing.tables and not listing.tables[0][0]:
        raise ConfigError(
            "a source's path is a folder that files land in, and this is that of a table "
            f"({listing.tables[0][1]}), whose files have earlier versions of rows too",
            path=store.uri,
        )
    root = store.local_path("")
    if root is None:
        return listing
    exists = Path(root).is_dir()
    if not exists and Path(root).is_file():
        raise ConfigError("a source's path is a folder, and this is a file", path=root)
    if not exists and _PATTERN.search(root):
        message = "a source's path has no patterns: name the folder, and all its files are taken in"
        raise ConfigError(message, path=root)
    return replace(listing, settle_ms=LOCAL_SETTLE_MS, exists=exists)
