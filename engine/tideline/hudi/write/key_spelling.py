"""The key generator of a table, as it spells the keys that it has.

Record keys of one column that a complex key generator made are `id:1` or `1`. Hudi has done both,
by its version (0.14.1 to 1.0.2 leave the column's name out), and no property says which. The keys
that a table has decide: those in the footer of a base file, else those of a block of a log. A table
without any is spelled as Hudi before and after these versions does. Times are spelled as
`stored_spelling` finds them.
Source: Hudi's KeyGenUtils.encodeSingleKeyFieldNameForComplexKeyGen.
"""

from __future__ import annotations

from tideline.errors import UnsupportedTableError
from tideline.hudi.file_group.slice_keys import keys_of_slice
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.partition_time import UTC
from tideline.hudi.keys.stored_spelling import spelled_as_stored
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.committed import CommittedInstants

_PARTITIONS_MAX = 64
"""How many partitions are looked into until one has a key."""


def key_generator(
    table: HoodieTable,
    timeline: ActiveTimeline | None = None,
    *,
    zone: str = UTC,
    replaces_all: bool = False,
) -> KeyGenerator:
    """The table's key generator; keys that are stored already settle how they are spelled.

    `timeline` is the table's, read here unless given. `zone` is that of times as text; with
    `replaces_all` no stored key outlives the write. Raises UnsupportedTableError where two
    spellings are found, and each row may be there twice, or one that is not made here.
    """
    keys = KeyGenerator.from_config(table.config)
    if not table.config.populate_meta_fields:
        return keys
    if timeline is None:
        timeline = table.timeline()
    if keys.qualified and len(keys.record_fields) == 1:
        keys = _named_or_bare(table, timeline, keys)
    return keys if replaces_all else spelled_as_stored(table, timeline, keys, zone)


def _named_or_bare(
    table: HoodieTable, timeline: ActiveTimeline, keys: KeyGenerator
) -> KeyGenerator:
    config = table.config
    stored = _stored_keys(table, timeline)
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


def _stored_keys(table: HoodieTable, timeline: ActiveTimeline) -> tuple[str, ...]:
    """Some keys of the first file group that has any."""
    view = table.file_system_view(timeline)
    committed = CommittedInstants.of(timeline)
    for partition in view.partitions[:_PARTITIONS_MAX]:
        for piece in view.latest_slices(partition):
            keys = keys_of_slice(table.store, piece, committed)
            if keys:
                return keys
    return ()
