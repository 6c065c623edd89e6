"""Commit metadata: the JSON Hudi writes, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.hudi.timeline.commit_metadata import (
    NO_PREVIOUS_COMMIT,
    CommitMetadata,
    RuntimeStats,
    WriteStat,
)
from tideline.testing.fixtures import fixture_table

V6_MOR = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
V6_COW = "hudi-rs.cow.v6_nonpartitioned/data/v6_nonpartitioned"
V6_OVERWRITE = (
    "hudi-rs.mor-parquet.v6_simplekeygen_nonhivestyle_overwritetable/"
    "data/v6_simplekeygen_nonhivestyle_overwritetable"
)
BY_HUDI_1X = "hudi-spark.trips_logical_types_json_cow_read_v6/data"
BY_HUDI_0_9 = (
    "hudi-utilities.testUpsertsContinuousModeWithMultipleWriters.MERGE_ON_READ/"
    "data/testtable_MERGE_ON_READ"
)

COUNTS = st.integers(0, 2**62)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
WRITE_STATS = st.builds(
    WriteStat,
    file_id=st.none() | TEXTS,
    path=st.none() | TEXTS,
    cdc_stats=st.none() | st.dictionaries(TEXTS, COUNTS, max_size=2),
    prev_commit=st.none() | st.just(NO_PREVIOUS_COMMIT),
    num_writes=COUNTS,
    num_inserts=COUNTS,
    file_size_in_bytes=COUNTS,
    max_event_time=st.none() | COUNTS,
    runtime_stats=st.none() | st.builds(RuntimeStats, COUNTS, COUNTS, COUNTS),
) | st.builds(
    WriteStat,
    log_version=st.integers(1, 9),
    log_offset=COUNTS,
    base_file=st.none() | TEXTS,
    log_files=st.lists(TEXTS, max_size=3).map(tuple),
)
COMMITS = st.builds(
    CommitMetadata,
    st.dictionaries(TEXTS, st.lists(WRITE_STATS, max_size=3).map(tuple), max_size=3),
    st.sampled_from(["UPSERT", "CLUSTER"]),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.booleans(),
    st.none() | st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2).map(tuple), max_size=2),
)


def json_instants(table: str) -> Iterator[Path]:
    for file in sorted((fixture_table(table) / ".hoodie").iterdir()):
        if file.name.endswith(("commit", ".inflight")) and file.read_bytes().startswith(b"{"):
            yield file


@given(COMMITS)
def test_what_is_encoded_decodes_to_the_same_value(metadata: CommitMetadata) -> None:
    body = metadata.encode()
    assert CommitMetadata.decode(body, path="p") == metadata
    assert CommitMetadata.decode(body, path="p").encode() == body


@pytest.mark.fixtures
@pytest.mark.parametrize("table", [V6_MOR, V6_COW, V6_OVERWRITE])
def test_metadata_of_hudi_0_14_is_reproduced_byte_for_byte(table: str) -> None:
    files = list(json_instants(table))
    assert files
    for file in files:
        body = file.read_bytes()
        assert CommitMetadata.decode(body, path=file.name).encode() == body, file.name


@pytest.mark.fixtures
@pytest.mark.parametrize("table", [BY_HUDI_1X, BY_HUDI_0_9])
def test_stats_of_other_hudi_versions_survive(table: str) -> None:
    files = list(json_instants(table))
    assert files
    for file in files:
        body = file.read_bytes()
        rewritten = json.loads(CommitMetadata.decode(body, path=file.name).encode())
        for stats, again in zip(
            json.loads(body)["partitionToWriteStats"].values(),
            rewritten["partitionToWriteStats"].values(),
            strict=True,
        ):
            for stat, stat_again in zip(stats, again, strict=True):
                assert stat == {key: stat_again[key] for key in stat}


@pytest.mark.fixtures
def test_a_real_log_append_is_read_into_fields() -> None:
    file = fixture_table(V6_MOR) / ".hoodie" / "20250922132154428.deltacommit"
    metadata = CommitMetadata.decode(file.read_bytes(), path=file.name)
    (stat,) = metadata.partition_to_write_stats["2023-01-01"]
    log_name = ".5023772b-1fc6-4d7b-a563-21257d92e366-0_20250922132151286.log.1_0-121-135"
    assert (stat.log_version, stat.log_files) == (1, (log_name,))
    assert stat.path == f"2023-01-01/{log_name}"
    assert (stat.num_update_writes, stat.file_size_in_bytes) == (1, 947)
    assert stat.runtime_stats == RuntimeStats(total_upsert_time=222)
    assert stat.unrecognised == {}
    assert json.loads(metadata.schema_json or "")["type"] == "record"


@pytest.mark.fixtures
def test_a_real_clustering_names_the_groups_it_replaced() -> None:
    file = fixture_table(V6_MOR) / ".hoodie" / "20250922132203239.replacecommit"
    metadata = CommitMetadata.decode(file.read_bytes(), path=file.name)
    assert metadata.operation_type == "CLUSTER"
    assert metadata.partition_to_replace_file_ids == {
        "2023-01-01": (
            "5023772b-1fc6-4d7b-a563-21257d92e366-0",
            "410f118b-57f4-4873-90b0-439183f73e58-0",
        ),
        "2023-01-02": ("343e5050-309f-4e7f-8f3a-3f5a97b99eed-0",),
    }
    assert len(metadata.write_stats) == 2


def test_keys_of_a_stat_come_in_the_order_of_hudi() -> None:
    stat = WriteStat(file_id="f", runtime_stats=RuntimeStats(), log_version=1)
    keys = list(stat.to_json_object())
    assert keys[:4] == ["fileId", "path", "cdcStats", "prevCommit"]
    assert keys[-6:] == [
        "runtimeStats",
        "logVersion",
        "logOffset",
        "baseFile",
        "logFiles",
        "recordsStats",
    ]


@pytest.mark.parametrize("schema", [{}, {"schema": ""}])
def test_no_schema_is_none(schema: dict[str, str]) -> None:
    assert CommitMetadata(extra_metadata=schema).schema_json is None


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"partitionToWriteStats": null, "extraMetadata": {"schema": null}, "compacted": null}',
        b'{"somethingNew": [1, {"x": 2}], "operationType": "UNKNOWN"}',
    ],
)
def test_sparse_or_unknown_content_reads_as_empty(body: bytes) -> None:
    assert CommitMetadata.decode(body, path="p") == CommitMetadata()


def test_null_numbers_read_as_their_defaults() -> None:
    stat = WriteStat.from_json_object({"fileId": "f", "numWrites": None, "runtimeStats": None})
    assert stat == WriteStat(file_id="f")


def test_a_body_cut_anywhere_is_corrupt_and_names_path_and_instant() -> None:
    body = CommitMetadata({"p": (WriteStat(file_id="f"),)}, "UPSERT").encode()
    for length in range(len(body)):
        with pytest.raises(CorruptTableError) as corrupt:
            CommitMetadata.decode(body[:length], path=".hoodie/1.commit", instant="1")
        assert (corrupt.value.path, corrupt.value.instant) == (".hoodie/1.commit", "1")


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"partitionToWriteStats": []},
        {"partitionToWriteStats": {"p": {}}},
        {"partitionToWriteStats": {"p": ["stat"]}},
        {"partitionToWriteStats": {"p": [{"numWrites": "many"}]}},
        {"partitionToWriteStats": {"p": [{"path": 7}]}},
        {"partitionToWriteStats": {"p": [{"logFiles": "one"}]}},
        {"extraMetadata": {"schema": 7}},
        {"operationType": 7},
        {"partitionToReplaceFileIds": {"p": [7]}},
    ],
)
def test_content_of_the_wrong_type_is_corrupt(content: Any) -> None:
    with pytest.raises(CorruptTableError) as corrupt:
        CommitMetadata.decode(json.dumps(content).encode(), path=".hoodie/1.commit")
    assert corrupt.value.path == ".hoodie/1.commit"


def test_an_avro_body_is_corrupt_in_layout_1() -> None:
    with pytest.raises(CorruptTableError, match=r"1\.commit"):
        CommitMetadata.decode(b"Obj\x01\x02\x16avro.schema", path=".hoodie/1.commit")
