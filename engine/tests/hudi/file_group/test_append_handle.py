"""Log files as the append handle writes them: names, blocks, stats, markers, names taken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.formats.log_block import BlockFrame, BlockKind, HeaderKey, read_frames
from tideline.hudi.file_group.append_handle import append_log_files
from tideline.hudi.file_group.file_settings import LogSettings
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.log.data_block import decode_data_block
from tideline.hudi.log.delete_block import decode_delete_block
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile, split_path
from tideline.hudi.table.markers import Marker, MarkerKind, list_markers
from tideline.hudi.table.properties import MergeMode
from tideline.hudi.table.schema import META_COLUMNS, arrow_to_avro, with_meta_fields
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.memory.store import MemoryStore
from tideline.testing.handle_case import handle_input
from tideline.testing.stepping_store import Step, SteppingStore

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
T = InstantTime("20250101000000009")
BASE = InstantTime("20250101000000001")
COMPACTION = InstantTime("20250101000000005")
GROUP = FileGroupId("day=1", "11111111-2222-3333-4444-555555555555-0")


def context(**settings: Any) -> HandleContext:
    avro = arrow_to_avro(with_meta_fields(SCHEMA), name="t_record", namespace="hoodie.t")
    return HandleContext(
        "t", T, SCHEMA, write_token="7-3-12", log_schema_json=json.dumps(avro), **settings
    )


def slice_of(*logs: LogFile) -> FileSlice:
    base = BaseFile(GROUP.partition, GROUP.file_id, "0-1-1", BASE, 100)
    return FileSlice(GROUP, BASE, base, logs)


def log_file(version: int, token: str = "0-1-1", instant: InstantTime = BASE) -> LogFile:
    return LogFile(GROUP.partition, GROUP.file_id, instant, version, token, 10)


def rows(*keys: str, v: int = 1, deletes: list[bool] | None = None) -> pa.Table:
    columns = {"id": list(keys), "v": [v] * len(keys), "at": [v] * len(keys)}
    return handle_input(pa.table(columns, schema=SCHEMA), deletes=deletes)


@pytest.fixture
def store() -> MemoryStore:
    MemoryStore.forget("append-handle")
    return MemoryStore("append-handle")


def append(
    store: Any,
    incoming: pa.Table,
    ctx: HandleContext | None = None,
    onto: FileSlice | None = None,
    log_instant: InstantTime = BASE,
) -> tuple[WriteStat, ...]:
    return append_log_files(ctx or context(), store, onto or slice_of(), log_instant, incoming)


def blocks(store: Any, stat: WriteStat) -> list[tuple[BlockFrame, bytes]]:
    body = store.get(stat.path)
    frames = read_frames(lambda offset, length: body[offset : offset + length], len(body))
    return [(f, body[f.content_offset : f.content_offset + f.content_size_bytes]) for f in frames]


def data_rows(store: Any, stat: WriteStat) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for frame, content in blocks(store, stat):
        if frame.kind.is_data:
            schema_json = frame.headers[HeaderKey.SCHEMA]
            found += decode_data_block(frame.kind, content, schema_json).to_pylist()
    return found


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_rows_are_one_data_block_with_hudis_columns(
    store: MemoryStore, log_format: LogFormat
) -> None:
    ctx = context(logs=LogSettings(format=log_format))
    (stat,) = append(store, rows("a", "b"), ctx)
    ((frame, _),) = blocks(store, stat)
    expected = BlockKind.AVRO_DATA if log_format is LogFormat.AVRO else BlockKind.PARQUET_DATA
    assert frame.kind is expected
    assert frame.headers[HeaderKey.INSTANT_TIME] == str(T)
    stored = data_rows(store, stat)
    assert list(stored[0]) == [*META_COLUMNS, *SCHEMA.names]
    assert [tuple(row[name] for name in META_COLUMNS) for row in stored] == [
        (str(T), f"{T}_7_1", "a", "day=1", GROUP.file_id),
        (str(T), f"{T}_7_2", "b", "day=1", GROUP.file_id),
    ]


def test_the_stat_says_what_hudis_says(store: MemoryStore) -> None:
    (stat,) = append(
        store, rows("a", "b", "c", deletes=[False, True, False]), onto=slice_of(log_file(1))
    )
    name = f".{GROUP.file_id}_{BASE}.log.2_7-3-12"
    info = store.head(stat.path or "")
    assert info is not None
    assert replace(stat, runtime_stats=None) == WriteStat(
        file_id=GROUP.file_id,
        path=f"day=1/{name}",
        prev_commit=str(BASE),
        num_writes=2,
        num_update_writes=2,
        num_deletes=1,
        total_write_bytes=info.size_bytes,
        file_size_in_bytes=info.size_bytes,
        partition_path="day=1",
        log_version=2,
        base_file=f"{GROUP.file_id}_0-1-1_{BASE}.parquet",
        log_files=(log_file(1).name, name),
    )


def test_deletes_come_last_with_their_ordering_values(store: MemoryStore) -> None:
    ctx = context(merge_mode=MergeMode.EVENT_TIME_ORDERING, ordering_fields=("at",))
    (stat,) = append(store, rows("a", "b", v=5, deletes=[True, False]), ctx)
    (data, _), (deletes, content) = blocks(store, stat)
    assert (data.kind, deletes.kind) == (BlockKind.PARQUET_DATA, BlockKind.DELETE)
    (records,) = decode_delete_block(content)
    assert records.keys.to_pylist() == ["a"]
    assert records.partitions.to_pylist() == ["day=1"]
    assert [values.to_pylist() for values in records.ordering] == [[5]]


def test_a_delete_in_commit_order_carries_no_ordering_value(store: MemoryStore) -> None:
    ctx = context(ordering_fields=("at",))
    (stat,) = append(store, rows("a", deletes=[True]), ctx)
    ((_, content),) = blocks(store, stat)
    (records,) = decode_delete_block(content)
    assert records.ordering == ()


def test_the_last_of_several_rows_with_one_key_counts(store: MemoryStore) -> None:
    both = pa.concat_tables([rows("a", "b", v=1), rows("a", v=2)])
    (stat,) = append(store, both)
    assert sorted((row["id"], row["v"]) for row in data_rows(store, stat)) == [("a", 2), ("b", 1)]


def test_no_row_no_file(store: MemoryStore) -> None:
    assert append(store, rows()) == ()
    assert list(store.list()) == []


def test_a_row_without_a_key_is_refused(store: MemoryStore) -> None:
    incoming = rows("a").set_column(0, "_hoodie_record_key", pa.array([None], pa.string()))
    with pytest.raises(InvalidDataError, match="without a record key"):
        append(store, incoming)
    assert list(store.list()) == []


def test_on_a_pending_compaction_a_new_slice_begins(store: MemoryStore) -> None:
    """Its log files lie on top of the base file that the compaction is going to write."""
    onto = slice_of(log_file(1), log_file(2), log_file(1, instant=COMPACTION))
    (stat,) = append(store, rows("a"), onto=onto, log_instant=COMPACTION)
    partition, name = split_path(stat.path or "")
    log = LogFile.parse(partition, name)
    assert log is not None
    assert (log.instant, log.version) == (COMPACTION, 2)
    assert (stat.prev_commit, stat.base_file) == (str(COMPACTION), "")
    assert stat.log_files == (log_file(1, instant=COMPACTION).name, log.name)


def test_a_file_is_closed_once_it_is_large_enough(store: MemoryStore) -> None:
    ctx = context(logs=LogSettings(block_size_bytes_max=200, file_size_bytes_max=1))
    keys = [f"k{number:03d}" for number in range(20)]
    stats = append(store, rows(*keys, deletes=[number == 3 for number in range(20)]), ctx)
    assert len(stats) > 2
    assert [stat.log_version for stat in stats] == list(range(1, len(stats) + 1))
    assert [len(stat.log_files) for stat in stats] == list(range(1, len(stats) + 1))
    assert [stat.num_deletes for stat in stats] == [0] * (len(stats) - 1) + [1]
    written = [row["id"] for stat in stats for row in data_rows(store, stat)]
    assert written == [key for key in keys if key != "k003"]
    assert sum(stat.num_writes for stat in stats) == 19
    assert blocks(store, stats[-1])[-1][0].kind is BlockKind.DELETE
    seqnos = [row["_hoodie_commit_seqno"] for stat in stats for row in data_rows(store, stat)]
    assert len(set(seqnos)) == 19


def test_the_marker_is_there_before_the_file(store: MemoryStore) -> None:
    steps: list[Step] = []
    (stat,) = append(SteppingStore(store, steps.append), rows("a"))
    written = [step.path for step in steps if step.method.startswith("put")]
    assert written == [f".hoodie/.temp/{T}/{stat.path}.marker.APPEND", stat.path]


def test_a_name_that_another_writer_takes_first_is_left_to_it(store: MemoryStore) -> None:
    taken = f"day=1/.{GROUP.file_id}_{BASE}.log.1_7-3-12"

    def before(step: Step) -> None:
        if step.path == taken and store.head(taken) is None:
            store.put(taken, b"another writer's")

    (stat,) = append(SteppingStore(store, before), rows("a"))
    assert store.get(taken) == b"another writer's"
    assert stat.log_version == 2
    marked = Marker("day=1", split_path(stat.path or "")[1], MarkerKind.APPEND)
    assert list_markers(store, T) == (marked,), "the other one's file must not look like ours"


def test_a_table_without_meta_columns_has_none_in_its_logs(store: MemoryStore) -> None:
    avro = json.dumps(arrow_to_avro(SCHEMA, name="t_record", namespace="hoodie.t"))
    ctx = replace(context(populate_meta_fields=False), log_schema_json=avro)
    (stat,) = append(store, rows("a"), ctx)
    assert list(data_rows(store, stat)[0]) == SCHEMA.names
