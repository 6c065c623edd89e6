"""What a range of commits did in all: of each key the last row, or that it was deleted.

The changes of a feed, one commit after the other, come down to one for each key: INSERT, where the
key was not there before the range, UPDATE_AFTER, where it was, and DELETE, with the row as it was
right before it went. What came and went within the range is left out. These are the rows of an
incremental read, and those that such a read cannot show.

Memory depends on the changes of the range that are left, and on those of one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.row_changes import CHANGE_TYPE, ChangeType
from tideline.hudi.read.changes import ChangeFeed, row_identity
from tideline.hudi.timeline.instant_time import InstantTime

_FOLDED_AT_ROWS = 100_000
_AFTER = ChangeType.UPDATE_AFTER.value


@dataclass(frozen=True, slots=True)
class NetChanges:
    """The net changes of a feed, with its columns; `_change_instant` is that of a key's last
    change."""

    feed: ChangeFeed

    @property
    def schema(self) -> pa.Schema:
        """As the feed's."""
        return self.feed.schema

    @property
    def until(self) -> InstantTime:
        """Where the range ends: begin after it the next time."""
        return self.feed.until

    def read_all(self) -> pa.Table:
        """All of them in memory."""
        found = self.schema.empty_table()
        waiting: list[pa.Table] = []
        for changes in self._by_commit():
            waiting.append(changes)
            if sum(item.num_rows for item in waiting) > max(_FOLDED_AT_ROWS, found.num_rows):
                found, waiting = self._folded([found, *waiting]), []
        return self._folded([found, *waiting])

    def _by_commit(self) -> Iterator[pa.Table]:
        for step in self.feed.plan.steps:
            rows = pa.Table.from_batches(list(self.feed.of_commit(step)), self.schema)
            yield rows.filter(pc.not_equal(rows[CHANGE_TYPE], ChangeType.UPDATE_BEFORE.value))

    def _folded(self, parts: Sequence[pa.Table]) -> pa.Table:
        """The changes of parts; each has a key once and is later than the one before it.

        A key that parts have more often, as tables with keys stored twice do, keeps all the rows
        that the last of these parts has of it.
        """
        rows = pa.concat_tables(parts)
        if not rows.num_rows:
            return rows
        identity = row_identity(rows, is_global=self.feed.keys_are_global())
        keys = identity.dictionary_encode().indices
        codes = keys.to_numpy(zero_copy_only=False)
        part = np.repeat(np.arange(len(parts)), [item.num_rows for item in parts])
        is_insert = pc.equal(rows[CHANGE_TYPE], ChangeType.INSERT.value).to_numpy()
        is_delete = pc.equal(rows[CHANGE_TYPE], ChangeType.DELETE.value).to_numpy()
        count = int(codes.max()) + 1
        first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        last[codes] = part
        is_new = is_insert[first][codes]
        kept = (part == last[codes]) & ~(is_delete & is_new)
        is_stored = pc.if_else(pa.array(is_new), ChangeType.INSERT.value, _AFTER)
        said = pc.if_else(pa.array(is_delete), ChangeType.DELETE.value, is_stored)
        at = rows.schema.get_field_index(CHANGE_TYPE)
        return rows.set_column(at, rows.schema.field(at), said).filter(pa.array(kept))
