"""How a table spells record keys of one column that a complex key generator made: `id:1` or `1`.

Hudi has done both, by its version (0.14.1 to 1.0.2 leave the column's name out), and no property
says which. The keys that a table has decide: those in the footer of a base file, else those of a
block of a log. A table without any is spelled as Hudi before and after these versions does.
Source: Hudi's KeyGenUtils.encodeSingleKeyFieldNameForComplexKeyGen.
"""

from __future__ import annotations

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.hudi.write.key_generator import KeyGenerator
from tideline.hudi.write.slice_keys import keys_of_slice

_PARTITIONS_MAX = 64
"""How many partitions are looked into until one has a key."""


def key_generator(table: HoodieTable) -> KeyGenerator:
    """The table's key generator; keys that are stored already settle how they are spelled.

    Raises UnsupportedTableError where both spellings are found: each row may be there twice.
    """
    config = table.config
    keys = KeyGenerator.from_config(config)
    if not keys.qualified or len(keys.record_fields) > 1 or not config.populate_meta_fields:
        return keys
    stored = _stored_keys(table)
    spelled = {KeyGenerator.from_config(config, stored_key=key).qualified for key in stored}
    if len(spelled) > 1:
        raise UnsupportedTableError(
            f"some record keys begin with {keys.record_fields[0]}: and some do not, as Hudi's "
            "versions differ (HUDI-7001), so that rows may be there twice; rewrite the table "
            "with one of them first",
            table=table.location.uri,
            value=", ".join(stored),
        )
    return KeyGenerator.from_config(config, stored_key=next(iter(stored), None))


def _stored_keys(table: HoodieTable) -> tuple[str, ...]:
    """Some keys of the first file group that has any."""
    timeline = table.timeline()
    view = table.file_system_view(timeline)
    committed = CommittedInstants.of(timeline)
    for partition in view.partitions[:_PARTITIONS_MAX]:
        for piece in view.latest_slices(partition):
            keys = keys_of_slice(table.store, piece, committed)
            if keys:
                return keys
    return ()
