"""Some record keys of a file slice: of its base file, or, where that has none, of its logs.

Enough to learn how a table spells its keys and where an index puts them. Of a base file one request
for the footer; of logs the first block with rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.hudi.file_group.stored_keys import some_stored_keys
from tideline.hudi.log.data_block import decode_data_block
from tideline.hudi.log.log_files import LogFiles
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.meta_column import RECORD_KEY
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.storage.object_store import ObjectStore


def keys_of_slice(
    store: ObjectStore, file_slice: FileSlice, committed: CommittedInstants
) -> tuple[str, ...]:
    """The smallest and the greatest key of the base file or of one block, or any one key.

    None of a slice without rows, or without meta columns. Raises CorruptTableError or
    UnsupportedTableError naming the file.
    """
    if file_slice.base_file is not None:
        keys = some_stored_keys(store, file_slice.base_file)
        if keys:
            return keys
    files = LogFiles(store, file_slice.log_files)
    for block in files.select(committed).blocks:
        if block.is_delete:
            continue
        rows = decode_data_block(
            block.frame.kind, files.content(block), block.schema_json, [RECORD_KEY]
        )
        if RECORD_KEY in rows.schema.names and rows.num_rows:
            return _extremes(rows.column(RECORD_KEY).to_pylist())
    return ()


def _extremes(keys: Iterable[str | None]) -> tuple[str, ...]:
    known = [key for key in keys if key is not None]
    return (min(known), max(known)) if known else ()
