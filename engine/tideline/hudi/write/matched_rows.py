"""The rows that a condition matched, deleted or updated by the keys and the partition paths that
they are stored with.

1. Of rows to be deleted no key is made of their columns: Hudi has more than one spelling for some
   types, and a table may have any.
2. They are looked up in the file groups that they were read from, where these are known: a copy of
   a key that does not match stays where it is. Where a record index has another place for one of
   the keys there as well, for with a deleted key goes its record, and the copy would be lost to it.
   Else they are looked up in their own partitions, whatever the table's index is. In logs as well.
3. As many rows must be found as matched, before a file is written, and be deleted, before the
   commit. Fewer: some would stay, and updates of them be new rows. More: the key of a row that
   matches is that of another one, which does not.
4. What others wrote to the same file groups since the rows were read is a conflict, not only what
   they wrote since this write began. So is another number, where a write completed between the two:
   it may have changed the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.errors import ConflictError, UnsupportedTableError
from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.write.config import WriteConfig
from tideline.wording import counted


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """How many rows matched, copies of a key included, the writes that were there by then, and
    file groups that have all of these rows, where that is known; what is done with them."""

    count: int
    seen: TransactionStart
    groups: frozenset[FileGroupId] | None = None
    done: str = "deleted"

    def require_found(self, found: int, table: str, timeline: ActiveTimeline) -> None:
        """Raise UnsupportedTableError where another number of rows has the keys of those that
        matched, and ConflictError where another write may be why: they were found by `timeline`."""
        if found == self.count:
            return
        self._require_unchanged(table, timeline)
        if found > self.count:
            raise UnsupportedTableError(
                f"{self._matched}, but {found:,} have the same keys in the same partitions, so "
                f"that others would be {self.done} with them; nothing was {self.done}. Delete by a "
                "condition for all rows of these keys (`tideline check --keys` shows keys that are "
                "stored twice)",
                table=table,
            )
        raise UnsupportedTableError(
            f"{self._matched}, but {found:,} {'is' if found == 1 else 'are'} found by key and "
            f"partition path, so that others would stay; nothing was {self.done}. They lie in "
            "other partitions or have other keys, than their columns say: change them with the "
            "engine that wrote them",
            table=table,
        )

    def require_deleted(self, deleted: int, table: str, timeline: ActiveTimeline) -> None:
        """Raise UnsupportedTableError where another number of rows is deleted: a log deletes one
        row of each key, and a base file may have several. ConflictError as `require_found`."""
        if deleted == self.count:
            return
        self._require_unchanged(table, timeline)
        raise UnsupportedTableError(
            f"{self._matched}, but {deleted:,} would be deleted; nothing was. Some keys are stored "
            "more than once in a file, and a log deletes one: rewrite their partitions "
            "(insert_overwrite)",
            table=table,
        )

    def _require_unchanged(self, table: str, timeline: ActiveTimeline) -> None:
        if TransactionStart.of(timeline).completed <= self.seen.completed:
            return
        raise ConflictError(
            "another write completed after the rows that match were read: nothing was "
            f"{self.done}, try again",
            table=table,
        )

    @property
    def _matched(self) -> str:
        return f"{counted(self.count, 'row')} {'matches' if self.count == 1 else 'match'}"


def by_stored_place(config: WriteConfig) -> WriteConfig:
    """The same settings, with an index that looks for keys in their own partitions."""
    reads_blooms = config.index.type.reads_bloom_filters
    kind = IndexType.BLOOM if reads_blooms else IndexType.SIMPLE
    return replace(config, index=replace(config.index, type=kind))
