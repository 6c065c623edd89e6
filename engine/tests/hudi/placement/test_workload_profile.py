"""The workload profile as the inflight instant holds it."""

from __future__ import annotations

from tideline.hudi.placement.workload_profile import (
    PartitionWorkload,
    UpdateCount,
    WorkloadProfile,
    inflight_metadata,
)
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant_time import InstantTime

T = InstantTime("20250101000000000")
PROFILE = WorkloadProfile(
    {
        "p2": PartitionWorkload(inserts=3),
        "p1": PartitionWorkload(5, {"b-0": UpdateCount(T, 2), "a-0": UpdateCount(T, 1)}),
    }
)


def test_totals_add_up_over_partitions() -> None:
    assert PROFILE.total_inserts == 8
    assert PROFILE.total_updates == 3


def test_inflight_has_inserts_first_then_every_located_file() -> None:
    metadata = inflight_metadata(PROFILE, "UPSERT")
    found = {
        partition: [
            (stat.file_id, stat.prev_commit, stat.num_inserts, stat.num_update_writes)
            for stat in stats
        ]
        for partition, stats in metadata.partition_to_write_stats.items()
    }
    assert found == {
        "p1": [("", "null", 5, 0), ("a-0", str(T), 0, 1), ("b-0", str(T), 0, 2)],
        "p2": [("", "null", 3, 0)],
    }
    assert metadata.operation_type == "UPSERT"
    assert not metadata.compacted


def test_inflight_survives_its_json() -> None:
    metadata = inflight_metadata(PROFILE, "DELETE")
    assert CommitMetadata.decode(metadata.encode(), path="x").encode() == metadata.encode()


def test_an_empty_profile_still_names_its_operation() -> None:
    metadata = inflight_metadata(WorkloadProfile(), "DELETE")
    assert metadata.partition_to_write_stats == {}
    assert metadata.operation_type == "DELETE"
