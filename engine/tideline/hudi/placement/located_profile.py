"""The workload profile of a batch whose keys were looked up. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.placement.workload_profile import PartitionWorkload, UpdateCount, WorkloadProfile


def located_profile(
    rows: Mapping[str, int],
    located: Mapping[tuple[str, int], int],
    candidates: Sequence[LookupCandidate],
    *,
    distinct_located: Mapping[str, int],
    moves_rows: bool,
) -> WorkloadProfile:
    """The profile of `rows` per incoming partition.

    `located` counts the keys found, by incoming partition and number of the candidate.
    `distinct_located` counts keys once for each incoming partition, where copies in several file
    groups would overlook inserts; empty elsewhere. `moves_rows`: a row found in another partition
    may leave it.
    """
    inserts = {
        partition: count - distinct_located.get(partition, 0) for partition, count in rows.items()
    }
    updates: dict[str, dict[str, UpdateCount]] = {partition: {} for partition in inserts}
    for (partition, number), keys in sorted(located.items()):
        file = candidates[number].piece
        if not distinct_located:
            inserts[partition] = max(0, inserts[partition] - keys)
        found = updates.setdefault(file.partition, {})
        known = found[file.file_id].records if file.file_id in found else 0
        found[file.file_id] = UpdateCount(file.base_instant, known + keys)
        if partition != file.partition and moves_rows:
            # The row may move: then it is a delete there and an insert here.
            inserts[partition] += keys
    return WorkloadProfile(
        {
            partition: PartitionWorkload(inserts.get(partition, 0), found)
            for partition, found in updates.items()
        }
    )
