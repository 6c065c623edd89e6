"""What a clean must not delete, regardless of who planned it and when.

For the files that a plan names in one partition, by its listing as it is now. One that is not
there is passed over. In this order a file must stay:

1. It is no data file of a Hudi table.
2. A completed savepoint names it.
3. Its instant is pending: a write, or rows appended on top of a pending compaction.
4. It belongs to the newest slice of a file group that nothing replaced. A replacecommit leaves the
   active timeline only once its groups are cleaned; should another engine have been faster, the
   archive is read before the plan is refused.
5. A pending compaction, log compaction or clustering reads its slice.

Pure, but for the archive, which is asked for when it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tideline.hudi.services.cleaning.plan import TableFacts, is_needed
from tideline.hudi.table.file_group import BaseFile, FileGroupId, LogFile, split_path
from tideline.hudi.table.file_system_view import parse_data_file


@dataclass(slots=True)
class DeletionGuard:
    """`archived_replaced` gives the file groups that archived replacecommits replaced."""

    facts: TableFacts
    archived_replaced: Callable[[], frozenset[FileGroupId]]
    _archived: frozenset[FileGroupId] | None = field(default=None, init=False)

    def objections(
        self, partition: str, listing: Sequence[tuple[str, int]], paths: Iterable[str]
    ) -> dict[str, str]:
        """Of the paths to delete in a partition, those that must stay, each with the reason."""
        listed = {name for name, _ in listing}
        view = self.facts.view({partition: listing})
        newest: dict[str, FileGroupId] = {}
        read: set[str] = set()
        for file_slice in view.latest_slices(partition):
            newest |= dict.fromkeys((file.name for file in file_slice.files), file_slice.group)
        for group in view.all_file_groups(partition):
            for file_slice in group.slices:
                if is_needed(file_slice, self.facts.needed):
                    read.update(file.name for file in file_slice.files)
        found: dict[str, str] = {}
        for path in paths:
            name = split_path(path)[1]
            file = parse_data_file(partition, name, 0)
            reason = "it is not a data file" if file is None else None
            if file is not None and name in listed:
                reason = self._reason(file, newest.get(name), is_read=name in read)
            if reason is not None:
                found[path] = reason
        return found

    def _reason(
        self, file: BaseFile | LogFile, newest_of: FileGroupId | None, *, is_read: bool
    ) -> str | None:
        if file.name in self.facts.savepointed.get(file.partition, ()):
            return "a savepoint keeps it"
        instant = self.facts.timeline.find(file.instant)
        if instant is not None and instant.is_pending:
            return f"instant {file.instant} is pending"
        if newest_of is not None and not self._is_replaced(newest_of):
            return "it is part of the newest version of its file group"
        return "a pending plan reads it" if is_read else None

    def _is_replaced(self, group: FileGroupId) -> bool:
        if self._archived is None:
            self._archived = self.archived_replaced()
        return group in self._archived
