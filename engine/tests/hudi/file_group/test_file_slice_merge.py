"""A file slice's log merged into its base file, against a dictionary in plain Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.errors import ConfigError, CorruptTableError
from tideline.formats.log_block import (
    BlockKind,
    HeaderKey,
    encode_block,
    rollback_command_block,
)
from tideline.hudi.file_group.create_handle import create_base_files
from tideline.hudi.file_group.file_settings import BloomSettings
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge, SliceContext, read_file_slice
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.slice_rewrite import RewriteContext, compact_log
from tideline.hudi.log.data_block import encode_data_block
from tideline.hudi.log.delete_block import encode_delete_block
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.table.avro_schema import arrow_to_avro
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.table.properties import MergeMode
from tideline.hudi.table.schema import META_COLUMNS, with_meta_fields
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.memory.store import MemoryStore
from tideline.testing.handle_case import handle_input

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int32()), ("v", pa.string())])
FILE_ID = "11111111-2222-3333-4444-555555555555-0"
PARTITION = "day=1"


def time(number: int) -> InstantTime:
    return InstantTime(f"2025010100000{number:04d}")


@dataclass
class Slice:
    """A file slice in memory, written block by block; instant n is that of the n-th write."""

    mode: MergeMode = MergeMode.EVENT_TIME_ORDERING
    schema: pa.Schema = SCHEMA
    meta: bool = True
    ordering: tuple[str, ...] = ("ts",)
    store: MemoryStore = field(default_factory=lambda: MemoryStore("slice"))
    base: BaseFile | None = None
    logs: list[LogFile] = field(default_factory=list)
    uncommitted: set[InstantTime] = field(default_factory=set)
    writes: int = 0

    def __post_init__(self) -> None:
        MemoryStore.forget("slice")

    def write_base(self, rows: list[dict[str, Any]]) -> None:
        ctx = HandleContext(
            "t",
            time(self.writes),
            self.schema,
            populate_meta_fields=self.meta,
            bloom=BloomSettings(num_entries=100),
        )
        table = pa.Table.from_pylist(rows, self.schema)
        (stat,) = create_base_files(
            ctx, self.store, PARTITION, FILE_ID.removesuffix("-0"), [handle_input(table)]
        )
        assert stat.path
        self.base = BaseFile.parse(PARTITION, stat.path.rpartition("/")[2], stat.file_size_in_bytes)
        assert self.base

    def write_rows(
        self,
        rows: list[dict[str, Any]],
        log_format: LogFormat = LogFormat.PARQUET,
        schema: pa.Schema | None = None,
        **headers: str,
    ) -> None:
        schema = schema or self.schema
        full = with_meta_fields(schema) if self.meta else schema
        instant = time(self.writes + 1)
        complete = [
            {
                "_hoodie_commit_time": str(instant),
                "_hoodie_commit_seqno": f"{instant}_0_{number}",
                "_hoodie_record_key": row["id"],
                "_hoodie_partition_path": PARTITION,
                "_hoodie_file_name": FILE_ID,
                **row,
            }
            for number, row in enumerate(rows)
        ]
        avro = json.dumps(arrow_to_avro(full, name="t_record", namespace="hoodie.t"))
        table = pa.Table.from_pylist(complete, full)
        texts = {HeaderKey[name.upper()]: text for name, text in headers.items()}
        self.append(encode_data_block(log_format, table, avro, instant, headers=texts))

    def write_deletes(self, keys: list[str], ordering: pa.Array | None = None) -> None:
        values = [] if ordering is None else [ordering]
        instant = time(self.writes + 1)
        self.append(encode_delete_block(pa.array(keys), PARTITION, values, instant, "{}"))

    def append(self, body: bytes) -> None:
        self.writes += 1
        log = LogFile(PARTITION, FILE_ID, time(0), self.writes, "1-0-1", len(body))
        self.store.put(log.path, body)
        self.logs.append(log)

    def context(self) -> SliceContext:
        times = {time(number) for number in range(self.writes + 1)} - self.uncommitted
        return SliceContext(
            table=self.store.uri,
            schema=self.schema,
            committed=CommittedInstants(frozenset(times), latest=time(9999)),
            merge_mode=self.mode,
            ordering_fields=self.ordering,
            populate_meta_fields=self.meta,
            key_fields=("id",),
        )

    def merge(self, columns: list[str] | None = None) -> FileSliceMerge:
        group = FileGroupId(PARTITION, FILE_ID)
        file_slice = FileSlice(group, time(0), self.base, tuple(self.logs))
        return FileSliceMerge(self.store, file_slice, self.context(), columns)

    def rows(self, columns: list[str] | None = None) -> list[dict[str, Any]]:
        merge = self.merge(columns or self.schema.names)
        found: list[dict[str, Any]] = pa.Table.from_batches(
            merge.batches(), merge.schema
        ).to_pylist()
        return found


def row(key: str, ts: int | None, v: str = "") -> dict[str, Any]:
    return {"id": key, "ts": ts, "v": v}


class Model:
    """Hudi's rules, an entry at a time."""

    def __init__(self, mode: MergeMode) -> None:
        self.by_event_time = mode is MergeMode.EVENT_TIME_ORDERING
        # Key to (ordering, row or None for a delete, whether the delete is in natural order).
        self.log: dict[str, tuple[int | None, dict[str, Any] | None, bool]] = {}

    def lower(self, new: int | None, old: int | None) -> bool:
        return self.by_event_time and new is not None and old is not None and new < old

    def put(self, entry: dict[str, Any]) -> None:
        old = self.log.get(entry["id"])
        if old is None or old[2] or not self.lower(entry["ts"], old[0]):
            self.log[entry["id"]] = (entry["ts"], entry, False)

    def delete(self, key: str, ts: int | None) -> None:
        natural = not ts or not self.by_event_time
        old = self.log.get(key)
        if old is not None and old[2]:
            return
        if old is None or natural or not self.lower(ts, old[0]):
            self.log[key] = (ts, None, natural)

    def merged(
        self, base: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What is left of the stored rows, and what the log adds."""
        left = dict(self.log)
        merged = []
        for stored in base:
            found = left.pop(stored["id"], None)
            if found is None or (not found[2] and self.lower(found[0], stored["ts"])):
                merged.append(stored)
            elif found[1] is not None:
                merged.append(found[1])
        return merged, [entry for _, entry, _ in left.values() if entry is not None]


KEYS = st.sampled_from("abcdef")
VALUES = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.lists(st.builds(row, KEYS, VALUES, st.text("xyz", max_size=2)), min_size=1, max_size=6)
DELETES = st.dictionaries(KEYS, VALUES, min_size=1)
WRITES = st.lists(st.one_of(ROWS, DELETES), max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    base=st.one_of(st.none(), ROWS),
    writes=WRITES,
    mode=st.sampled_from([MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING]),
    log_format=st.sampled_from(LogFormat),
    meta=st.booleans(),
)
def test_merging_is_what_the_rules_say_entry_by_entry(
    base: list[dict[str, Any]] | None,
    writes: list[Any],
    mode: MergeMode,
    log_format: LogFormat,
    meta: bool,
) -> None:
    file_slice = Slice(mode, meta=meta)
    model = Model(mode)
    if base is not None:
        file_slice.write_base(base)
    for write in writes:
        if isinstance(write, list):
            file_slice.write_rows(write, log_format)
            for entry in write:
                model.put(entry)
        else:
            keys = sorted(write)
            file_slice.write_deletes(keys, pa.array([write[key] for key in keys], pa.int32()))
            for key in keys:
                model.delete(key, write[key])
    stored, added = model.merged(base or [])
    merged = file_slice.rows()
    assert merged[: len(stored)] == stored
    assert sorted(map(str, merged[len(stored) :])) == sorted(map(str, added))
    texts = sorted(entry["v"] for entry in (*stored, *added))
    assert sorted(entry["v"] for entry in file_slice.rows(["v"])) == texts


def test_rows_keep_the_meta_columns_they_were_stored_with() -> None:
    file_slice = Slice()
    file_slice.write_base([row("a", 1), row("b", 1)])
    file_slice.write_rows([row("b", 2), row("c", 2)])
    merge = file_slice.merge()
    rows = pa.Table.from_batches(merge.batches(), merge.schema).to_pylist()
    assert merge.schema.names == [*META_COLUMNS, "id", "ts", "v"]
    assert [item["_hoodie_commit_time"] for item in rows] == [
        str(time(number)) for number in (0, 1, 1)
    ]
    assert rows[1]["_hoodie_commit_seqno"] == f"{time(1)}_0_0"
    assert rows[0]["_hoodie_file_name"].endswith(".parquet")
    assert rows[1]["_hoodie_file_name"] == FILE_ID


def test_what_was_merged_is_counted_as_hudi_counts() -> None:
    file_slice = Slice()
    file_slice.write_base([row("a", 5), row("b", 5), row("c", 5), row("d", 5)])
    file_slice.write_rows([row("a", 6), row("b", 4), row("n", 1)])
    file_slice.write_rows([row("a", 7)])
    file_slice.write_deletes(["c", "x"])
    file_slice.append(rollback_command_block(str(time(9)), str(time(8))))
    file_slice.append(b"#HUDI#")
    merge = file_slice.merge()
    rows = sum(batch.num_rows for batch in merge.batches())
    counters = merge.counters
    assert rows == counters.rows == 4
    assert (counters.updated, counters.inserted, counters.deleted) == (1, 1, 2)
    assert (counters.log_records, counters.merged_keys) == (6, 5)
    assert (counters.log_files, counters.log_blocks) == (5, 5)
    assert (counters.corrupt_blocks, counters.rollback_blocks) == (1, 1)


def test_of_several_stored_rows_of_a_key_only_the_first_meets_the_log() -> None:
    file_slice = Slice(MergeMode.COMMIT_TIME_ORDERING)
    file_slice.write_base([row("a", 1, "first"), row("b", 1), row("a", 1, "second")])
    file_slice.write_rows([row("a", 2, "new")])
    assert [item["v"] for item in file_slice.rows()] == ["new", "", "second"]


def test_rows_flagged_as_deleted_delete() -> None:
    schema = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.bool_())])
    file_slice = Slice(schema=schema)
    file_slice.write_base([{**row("a", 1), "_hoodie_is_deleted": False}, row("b", 3)])
    file_slice.write_rows(
        [{**row("a", 1), "_hoodie_is_deleted": True}, {**row("b", 2), "_hoodie_is_deleted": True}]
    )
    assert [item["id"] for item in file_slice.rows()] == ["b"]


@pytest.mark.parametrize(
    ("stored", "ordering", "survives"),
    [
        (pa.array([5]), pa.array([4]), True),
        (pa.array([5]), pa.array([5]), False),
        (pa.array([5]), pa.array([4], pa.int32()), False),
        (pa.array([5], pa.timestamp("us", "UTC")), pa.array([4]), True),
        (pa.array([5], pa.timestamp("ms", "UTC")), pa.array([5]), False),
        (pa.array([5.0]), pa.array([4.5]), True),
        (pa.array([5.0]), pa.array(["4"]), False),
        (pa.array([5], pa.decimal128(6, 2)), pa.array([4], pa.decimal128(6, 2)), True),
        (pa.array([5], pa.date32()), pa.array([4], pa.date32()), True),
        (pa.array(["5"]), pa.array(["4"]), True),
    ],
)
def test_deletes_compare_with_rows_of_their_own_type_only(
    stored: pa.Array, ordering: pa.Array, survives: bool
) -> None:
    file_slice = Slice(schema=pa.schema([("id", pa.string()), ("ts", stored.type)]))
    file_slice.write_rows([{"id": "a", "ts": stored[0].as_py()}])
    file_slice.write_deletes(["a"], ordering)
    assert bool(file_slice.rows()) is survives


@pytest.mark.parametrize("mode", [MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING])
def test_partial_rows_leave_the_other_columns_as_they_were(mode: MergeMode) -> None:
    schema = pa.schema([*SCHEMA, ("w", pa.string())])
    file_slice = Slice(mode, schema=schema)
    old = {"v": "v0", "w": "w0"}
    file_slice.write_base([{**row("a", 1), **old}, {**row("b", 1), **old}])
    part = pa.schema([("id", pa.string()), ("ts", pa.int32()), ("v", pa.string())])
    other = pa.schema([("id", pa.string()), ("ts", pa.int32()), ("w", pa.string())])
    file_slice.write_rows([row("a", 2, "v1")], schema=part, is_partial="true")
    file_slice.write_rows([{"id": "a", "ts": 3, "w": "w1"}], schema=other, is_partial="true")
    file_slice.write_rows([{"id": "b", "ts": 2, "w": "w1"}], schema=other, is_partial="true")
    file_slice.write_rows([{"id": "n", "ts": 2, "w": "w1"}], schema=other, is_partial="true")
    assert file_slice.rows() == [
        {"id": "a", "ts": 3, "v": "v1", "w": "w1"},
        {"id": "b", "ts": 2, "v": "v0", "w": "w1"},
        {"id": "n", "ts": 2, "v": None, "w": "w1"},
    ]


def test_a_log_compaction_leaves_partial_rows_as_they_are() -> None:
    """One block of whole rows has no word for the columns that a row leaves alone."""
    file_slice = Slice(MergeMode.COMMIT_TIME_ORDERING)
    file_slice.write_base([row("a", 1, "v0")])
    part = pa.schema([("id", pa.string()), ("ts", pa.int32())])
    file_slice.write_rows([{"id": "a", "ts": 2}], schema=part, is_partial="true")
    file_slice.write_rows([{"id": "a", "ts": 3}], schema=part, is_partial="true")
    before = file_slice.rows()
    full = json.dumps(arrow_to_avro(with_meta_fields(SCHEMA), name="t", namespace="hoodie.t"))
    handle = HandleContext("t", time(3), SCHEMA, log_schema_json=full)
    stats = compact_log(
        RewriteContext(handle, file_slice.context()), file_slice.store, file_slice.merge()._slice
    )
    file_slice.writes += 1
    for stat in stats:
        log = LogFile.parse(PARTITION, str(stat.path).rpartition("/")[2])
        assert log is not None
        file_slice.logs.append(log)
    assert file_slice.rows() == before == [row("a", 3, "v0")]


def test_files_and_blocks_older_than_the_schema_are_read_as_it_says() -> None:
    old = pa.schema([("id", pa.string()), ("ts", pa.int32())])
    file_slice = Slice(schema=old)
    file_slice.write_base([{"id": "a", "ts": 1}, {"id": "b", "ts": 1}])
    file_slice.write_rows([{"id": "b", "ts": 2}])
    file_slice.schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("new", pa.string())])
    file_slice.write_rows([{"id": "c", "ts": 2**40, "new": "x"}])
    assert file_slice.rows() == [
        {"id": "a", "ts": 1, "new": None},
        {"id": "b", "ts": 2, "new": None},
        {"id": "c", "ts": 2**40, "new": "x"},
    ]


def test_uncommitted_and_damaged_blocks_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    file_slice = Slice()
    file_slice.write_base([row("a", 1)])
    file_slice.write_rows([row("a", 2, "good")])
    file_slice.uncommitted = {time(2)}
    file_slice.write_rows([row("a", 3, "pending")])
    torn = file_slice.store.get(file_slice.logs[0].path)
    file_slice.append(torn[:-20])
    file_slice.write_rows([row("b", 1, "after the damage")])
    assert [item["v"] for item in file_slice.rows()] == ["good", "after the damage"]
    warning = f"damaged blocks are left out: 1 in {file_slice.store.uri}/{file_slice.logs[2].path}"
    assert caplog.messages == [warning]


def test_a_missing_log_file_is_named_with_table_and_instant() -> None:
    file_slice = Slice()
    file_slice.write_base([row("a", 1)])
    file_slice.write_rows([row("a", 2)])
    file_slice.store.delete(file_slice.logs[0].path)
    with pytest.raises(CorruptTableError) as caught:
        file_slice.rows()
    assert caught.value.message.startswith("log file is missing: put it back from a copy")
    assert (caught.value.table, caught.value.path) == ("memory://slice", file_slice.logs[0].path)
    assert caught.value.instant == time(0)


def test_contents_that_cannot_be_read_name_their_file() -> None:
    file_slice = Slice()
    headers = {HeaderKey.INSTANT_TIME: str(time(1)), HeaderKey.SCHEMA: "{}"}
    file_slice.append(encode_block(BlockKind.PARQUET_DATA, headers, b"no parquet"))
    with pytest.raises(CorruptTableError, match=r"table=memory://slice.*path=day=1/\.1111"):
        file_slice.rows()
    file_slice.append(encode_block(BlockKind.HFILE_DATA, headers, b"no HFile"))
    file_slice.logs.pop(0)
    with pytest.raises(CorruptTableError, match=r"HFile.*path=day=1/\.1111"):
        file_slice.rows()


def test_change_data_logs_are_no_part_of_the_rows() -> None:
    file_slice = Slice()
    file_slice.write_base([row("a", 1)])
    file_slice.logs.append(LogFile(PARTITION, FILE_ID, time(0), 1, "1-0-1", 10, is_cdc=True))
    assert len(file_slice.rows()) == 1


def test_unknown_columns_are_refused() -> None:
    file_slice = Slice()
    file_slice.write_base([row("a", 1)])
    group = FileGroupId(PARTITION, FILE_ID)
    with pytest.raises(ConfigError, match="no such columns"):
        next(
            read_file_slice(
                file_slice.store,
                FileSlice(group, time(0), file_slice.base),
                file_slice.context(),
                ["x"],
            )
        )
