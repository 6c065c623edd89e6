"""The identity of a table, from what never changes in hoodie.properties. Pure.

Hudi gives a table no id. Another table created in its place with the same name, type, keys and
partitioning has the same identity; only their timelines distinguish the two, see
`controller/deletion.py`.
"""

from __future__ import annotations

from hashlib import blake2b

from tideline.hudi.table.table_config import TableConfig

_CHECKSUM = "hoodie.table.checksum"


def identity_of(config: TableConfig) -> str:
    """A digest of what never changes in a table."""
    digest = blake2b(digest_size=12)
    for part in (
        config.database,
        config.name,
        config.table_type.value,
        ",".join(config.record_key_fields),
        ",".join(config.partition_fields),
        config.properties.get(_CHECKSUM, ""),
    ):
        digest.update(len(part.encode()).to_bytes(4, "big") + part.encode())
    return f"hudi-{digest.hexdigest()}"
