"""Does Hudi keep a record index of the table, and what does that say about its keys?

A record index is a partition of the metadata table that holds one place for each record key. Hudi's
older kind, the only one before 1.1, holds one for the whole table: a key in two partitions makes it
wrong, and rebuilding it fails. The newer kind, recognised by `isPartitioned` in the index
definitions, holds one for each partition of the table.

Source: Hudi's HoodieIndexDefinition, MetadataPartitionType.RECORD_INDEX (1.2).
"""

from __future__ import annotations

from typing import Any

from tideline.errors import ObjectNotFoundError
from tideline.formats.bounded import parse_json
from tideline.hudi.table.hoodie_table import HoodieTable

RECORD_INDEX_PARTITION = "record_index"
INDEX_DEFINITIONS_PATH = ".hoodie/.index_defs/index.json"
_DEFINITIONS_PATH = "hoodie.table.index.defs.path"


def has_global_record_index(table: HoodieTable) -> bool:
    """Whether the properties, as they were read last, name a record index of the whole table.

    Also one that is being built. Raises CorruptTableError when its definition cannot be read.
    """
    partitions = table.config.metadata_partitions_in_work
    return RECORD_INDEX_PARTITION in partitions and not _is_partitioned(table)


def _is_partitioned(table: HoodieTable) -> bool:
    path = table.config.properties.get(_DEFINITIONS_PATH, "").strip()
    if not path.startswith(".hoodie/") or ".." in path.split("/"):
        path = INDEX_DEFINITIONS_PATH
    try:
        body = table.store.get(path)
    except ObjectNotFoundError:
        return False
    found = parse_json(body, path=path, what="index definitions")
    for name in ("indexDefinitions", RECORD_INDEX_PARTITION, "indexOptions"):
        found = _member(found, name)
    return str(found.get("isPartitioned", "false")).strip().lower() == "true"


def _member(value: Any, name: str) -> dict[str, Any]:
    """A member that is an object; empty where there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
