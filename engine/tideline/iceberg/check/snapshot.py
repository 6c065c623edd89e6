"""Do the manifests of a snapshot fit together: no file twice, deletes of files that are there?"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise

from tideline.check_finding import Finding, error, note, warning
from tideline.iceberg.check.inspection import Inspection
from tideline.iceberg.manifest.manifest_entry import FileContent, ManifestEntry
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.wording import counted

NAME = "snapshots"
_ROLL_BACK = "roll back to a snapshot from before"


@dataclass(slots=True)
class ManifestFacts:
    """The live files of a manifest in few bytes each: hashes of data files, and of those that
    deletion vectors are of; the first row id of data files, and the one behind the last; and the
    sums that snapshots state."""

    data: array[int] = field(default_factory=lambda: array("q"))
    vectors: array[int] = field(default_factory=lambda: array("q"))
    first_ids: array[int] = field(default_factory=lambda: array("q"))
    end_ids: array[int] = field(default_factory=lambda: array("q"))
    sums: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, seen: Inspection, entries: Iterable[ManifestEntry]) -> ManifestFacts:
        facts = cls(sums=dict.fromkeys(_TOTALS, 0))
        for entry in entries:
            if entry.is_live:
                facts._add(seen, entry)
        return facts

    def _add(self, seen: Inspection, entry: ManifestEntry) -> None:
        file, sums = entry.data_file, self.sums
        has_length = file.is_deletion_vector and file.content_size_bytes is not None
        sums["total-files-size"] += (
            file.content_size_bytes or 0 if has_length else file.file_size_bytes
        )
        match file.content:
            case FileContent.DATA:
                self.data.append(seen.key(file.file_path))
                sums["total-data-files"] += 1
                sums["total-records"] += file.record_count
                if file.first_row_id is not None and file.record_count:
                    self.first_ids.append(file.first_row_id)
                    self.end_ids.append(file.first_row_id + file.record_count)
            case FileContent.POSITION_DELETES:
                sums["total-delete-files"] += 1
                sums["total-position-deletes"] += file.record_count
            case FileContent.EQUALITY_DELETES:
                sums["total-delete-files"] += 1
                sums["total-equality-deletes"] += file.record_count
        if file.is_deletion_vector and file.referenced_data_file is not None:
            self.vectors.append(seen.key(file.referenced_data_file))


_TOTALS = (
    "total-records",
    "total-files-size",
    "total-data-files",
    "total-delete-files",
    "total-position-deletes",
    "total-equality-deletes",
)


def check_snapshot(
    seen: Inspection, snapshot: Snapshot, manifests: Iterable[ManifestFacts]
) -> Iterator[Finding]:
    """Findings about the files of a snapshot as a whole."""
    held = list(manifests)
    about = f"snapshot {snapshot.snapshot_id}"
    data = Counter(chain.from_iterable(facts.data for facts in held))
    vectors = Counter(chain.from_iterable(facts.vectors for facts in held))
    for times, count in _repeated(data):
        message = f"{about} lists {counted(count, 'data file')} {times} times"
        yield error(NAME, f"{message}: their rows come as often", advice=_ROLL_BACK)
    for times, count in _repeated(vectors):
        message = f"{about} has {times} deletion vectors for each of {counted(count, 'data file')}"
        yield error(NAME, f"{message}: readers refuse that, or apply one of them")
    dangling = len(vectors.keys() - data.keys())
    if dangling:
        message = f"{about} has {counted(dangling, 'deletion vector')} of files that are gone"
        yield note(NAME, message, advice="tideline iceberg rewrite-position-deletes")
    if vectors and seen.metadata.format_version < 3:
        yield error(NAME, f"{about} has deletion vectors, which are of version 3 of the format")
    if not any(times > 1 for times in data.values()):
        yield from _row_ids(seen, about, held)
    yield from _totals(snapshot, held)


def _row_ids(seen: Inspection, about: str, held: Iterable[ManifestFacts]) -> Iterator[Finding]:
    """Row lineage: each row has an id of its own, and no row to come gets it."""
    ranges = sorted(chain.from_iterable(zip(of.first_ids, of.end_ids, strict=True) for of in held))
    shared = sum(1 for (_, end), (first, _) in pairwise(ranges) if first < end)
    if shared:
        message = f"{about} has {counted(shared, 'data file')} with row ids of other files"
        yield error(NAME, f"{message}: changes of rows are taken for those of others")
    free = seen.metadata.next_row_id
    if free is not None and ranges and ranges[-1][1] > free:
        message = f"{about} has row id {ranges[-1][1] - 1:,}, next-row-id is {free:,}"
        yield error(NAME, f"{message}: rows to come would share it")


def _totals(snapshot: Snapshot, held: Iterable[ManifestFacts]) -> Iterator[Finding]:
    sums = dict.fromkeys(_TOTALS, 0)
    for facts in held:
        for name, number in facts.sums.items():
            sums[name] += number
    for name, number in sums.items():
        said = snapshot.summary.get(name)
        if said is not None and said != str(number):
            message = f"the summary of snapshot {snapshot.snapshot_id} says {name}={said}"
            yield warning(NAME, f"{message}, its manifests have {number}")


def _repeated(times: Counter[int]) -> list[tuple[int, int]]:
    """How often, and how many files come so often, for those that come more than once."""
    return sorted(Counter(number for number in times.values() if number > 1).items())
