"""New base files: their rows, footers, names, sizes and statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import InvalidDataError
from tideline.hudi.file_group.create_handle import create_base_files
from tideline.hudi.file_group.file_settings import BloomSettings, ParquetSettings
from tideline.hudi.table.markers import MarkerKind
from tideline.parquet.encoding import ParquetCodec
from tideline.storage.local.store import LocalStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.handle_case import FILE_ID_PREFIX, FIRST, HandleCase, handle_input

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("text", pa.string())])


def rows(count: int, *, width: int = 10) -> pa.Table:
    random = np.random.default_rng(1)
    letters = random.integers(97, 123, (count, width), dtype=np.uint8)
    return pa.table(
        {
            "id": pa.array([f"key{number:07d}" for number in range(count)], pa.string()),
            "n": pa.array(range(count), pa.int64()),
            "text": pa.array([bytes(row).decode() for row in letters], pa.string()),
        }
    )


@pytest.fixture
def case() -> HandleCase:
    return HandleCase.of(SCHEMA)


def test_a_new_file_holds_the_rows_with_all_meta_columns(case: HandleCase) -> None:
    written = rows(25)
    (stat,) = case.create(written, batch_rows=10)
    case.check(stat, MarkerKind.CREATE)
    stored = case.read(stat)
    assert stored.drop_columns(stored.column_names[:5]).equals(written)
    assert stored["_hoodie_commit_time"].to_pylist() == [str(FIRST)] * 25
    assert stored["_hoodie_commit_seqno"].to_pylist() == [f"{FIRST}_7_{n}" for n in range(25)]
    assert stored["_hoodie_record_key"].equals(stored["id"])


def test_statistics_are_those_of_an_insert(case: HandleCase) -> None:
    (stat,) = case.create(rows(25))
    assert (stat.num_writes, stat.num_inserts, stat.num_update_writes) == (25, 25, 0)
    assert (stat.num_deletes, stat.total_write_errors) == (0, 0)
    assert stat.prev_commit == "null"
    assert stat.file_id == f"{FILE_ID_PREFIX}-0"
    assert (stat.min_event_time, stat.max_event_time) == (None, None)


def test_the_time_it_took_is_in_the_statistics(case: HandleCase) -> None:
    clock = FakeClock()
    batches = handle_input(rows(2)).to_batches(1)

    def slowly() -> Iterator[pa.RecordBatch]:
        yield batches[0]
        clock.advance(1.5)
        yield batches[1]

    (stat,) = create_base_files(
        case.ctx, case.store, "day=1", FILE_ID_PREFIX, slowly(), clock=clock
    )
    assert stat.runtime_stats is not None
    assert stat.runtime_stats.total_create_time == 1500


def test_an_unpartitioned_table_has_its_files_at_the_root() -> None:
    case = HandleCase.of(SCHEMA)
    case.partition = ""
    (stat,) = case.create(rows(3))
    case.check(stat, MarkerKind.CREATE)
    assert "/" not in (stat.path or "")


def test_no_rows_make_no_file(case: HandleCase) -> None:
    assert case.create_from([]) == ()
    assert case.create(rows(0)) == ()
    assert list(case.store.list()) == []


def test_deletes_have_nothing_to_delete_and_are_only_counted(case: HandleCase) -> None:
    (stat,) = case.create(rows(4), deletes=[True, False, False, True])
    case.check(stat, MarkerKind.CREATE)
    assert (stat.num_writes, stat.num_deletes) == (2, 2)
    assert [row["n"] for row in case.rows(stat)] == [1, 2]


def test_only_deletes_leave_a_file_without_rows_but_with_a_bloom_filter(case: HandleCase) -> None:
    (stat,) = case.create(rows(3), deletes=[True] * 3)
    case.check(stat, MarkerKind.CREATE)
    assert (stat.num_writes, stat.num_deletes) == (0, 3)
    assert case.read(stat).schema.names[5:] == SCHEMA.names


def test_the_bloom_filter_has_the_configured_size() -> None:
    case = HandleCase.of(SCHEMA, bloom=BloomSettings(num_entries=1000, error_rate=1e-3))
    (stat,) = case.create(rows(1500))
    bloom = case.footer(stat).bloom
    assert bloom is not None
    assert bloom.keys_per_row == 1000
    absent = pa.array([f"other{number}" for number in range(1000)])
    assert bloom.might_contain(absent).mean() < 0.1


@pytest.mark.parametrize(
    ("count", "expected"), [(0, 64), (1, 64), (64, 64), (65, 128), (600, 1024), (1100, 1500)]
)
def test_the_filter_of_a_file_with_few_rows_is_made_for_few(count: int, expected: int) -> None:
    case = HandleCase.of(SCHEMA, bloom=BloomSettings(num_entries=1500))
    (stat,) = case.create(rows(count) if count else rows(1), deletes=[not count] * max(count, 1))
    case.check(stat, MarkerKind.CREATE)
    bloom = case.footer(stat).bloom
    assert bloom is not None
    assert (bloom.keys_per_row, bloom.row_count) == (expected, 1)


def test_a_file_of_two_rows_is_small() -> None:
    case = HandleCase.of(SCHEMA, bloom=BloomSettings())
    (stat,) = case.create(rows(2))
    assert stat.file_size_in_bytes < 6_000


def test_a_file_has_no_filter_where_none_is_wanted() -> None:
    case = HandleCase.of(SCHEMA, bloom=BloomSettings(is_written=False))
    (stat,) = case.create(rows(200))
    footer = case.footer(stat)
    assert footer.bloom is None
    assert footer.min_key is not None


def test_a_file_rolls_at_the_maximum_size_and_every_row_is_in_one_file() -> None:
    size_max = 200_000
    case = HandleCase.of(
        SCHEMA,
        parquet=ParquetSettings(file_size_bytes_max=size_max),
        bloom=BloomSettings(100, 0.1, 100),
        record_size_estimate_bytes=100,
    )
    written = rows(20_000, width=40)
    stats = case.create(written, batch_rows=1500)
    assert [stat.file_id for stat in stats] == [f"{FILE_ID_PREFIX}-{k}" for k in range(len(stats))]
    assert len(stats) > 3
    for stat in stats[:-1]:
        assert 0.9 * size_max < stat.file_size_in_bytes < 1.2 * size_max
    for stat in stats:
        case.check(stat, MarkerKind.CREATE)
    ids = [row["id"] for stat in stats for row in case.rows(stat)]
    assert ids == written["id"].to_pylist()
    first_seqno = case.read(stats[1])["_hoodie_commit_seqno"][0].as_py()
    assert first_seqno == f"{FIRST}_7_0"


def test_a_file_slightly_too_large_does_not_leave_a_tiny_second_one() -> None:
    (whole,) = HandleCase.of(SCHEMA, rolls=False).create(rows(20_000, width=40))
    settings = ParquetSettings(file_size_bytes_max=math.ceil(whole.file_size_in_bytes / 1.05))
    case = HandleCase.of(SCHEMA, parquet=settings, record_size_estimate_bytes=100)
    assert len(case.create(rows(20_000, width=40))) == 1


def test_a_bucket_index_never_rolls() -> None:
    case = HandleCase.of(SCHEMA, parquet=ParquetSettings(file_size_bytes_max=10_000), rolls=False)
    (stat,) = case.create(rows(5_000, width=40))
    assert stat.num_writes == 5_000


def test_a_row_larger_than_a_file_still_gets_one() -> None:
    case = HandleCase.of(SCHEMA, parquet=ParquetSettings(file_size_bytes_max=1_000))
    stats = case.create(rows(3, width=50_000), batch_rows=3)
    assert [stat.num_writes for stat in stats] == [1, 1, 1]


def test_row_groups_end_at_rows_and_at_bytes() -> None:
    by_rows = HandleCase.of(SCHEMA, parquet=ParquetSettings(row_group_rows_max=400))
    (stat,) = by_rows.create(rows(1_000))
    groups = by_rows.metadata(stat)
    assert [groups.row_group(n).num_rows for n in range(3)] == [400, 400, 200]
    by_bytes = HandleCase.of(SCHEMA, parquet=ParquetSettings(row_group_bytes_max=50_000))
    (stat,) = by_bytes.create(rows(1_000, width=500))
    assert by_bytes.metadata(stat).num_row_groups > 8
    assert [row["n"] for row in by_bytes.rows(stat)] == list(range(1_000))


@pytest.mark.parametrize("codec", ParquetCodec)
def test_every_codec_writes_a_readable_file(codec: ParquetCodec) -> None:
    case = HandleCase.of(SCHEMA, parquet=ParquetSettings(codec=codec))
    (stat,) = case.create(rows(100))
    case.check(stat, MarkerKind.CREATE)
    used = case.metadata(stat).row_group(0).column(0).compression
    assert used.lower().startswith(codec.value.removesuffix("_raw"))


def test_a_table_without_meta_columns_gets_bare_files() -> None:
    case = HandleCase.of(SCHEMA, populate_meta_fields=False)
    (stat,) = case.create(rows(10))
    assert case.read(stat).equals(rows(10))
    footer = case.footer(stat)
    assert (footer.bloom, footer.min_key, footer.max_key) == (None, None, None)
    assert (stat.num_writes, stat.num_inserts) == (10, 10)


@pytest.mark.parametrize("populate_meta_fields", [True, False])
def test_footers_say_that_dates_are_gregorian(populate_meta_fields: bool) -> None:
    case = HandleCase.of(SCHEMA, populate_meta_fields=populate_meta_fields)
    (stat,) = case.create(rows(2))
    entries = case.metadata(stat).metadata
    assert entries[b"org.apache.spark.version"] == b"3.5.0"
    assert b"org.apache.spark.legacyDateTime" not in entries


def test_columns_are_written_in_schema_order_and_stored_types() -> None:
    schema = pa.schema([("n", pa.int64()), ("id", pa.string())])
    case = HandleCase.of(schema)
    incoming = pa.table(
        {
            "id": pa.array(["a", "b"], pa.large_string()),
            "unused": pa.array([1, 2]),
            "n": pa.array([1, 2], pa.int64()).dictionary_encode(),
        }
    )
    (stat,) = case.create(incoming)
    stored = case.read(stat).schema
    assert stored.names[5:] == ["n", "id"]
    assert stored.types[5:] == [pa.int64(), pa.string()]


def test_a_null_in_a_required_column_is_refused_and_leaves_no_file() -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    case = HandleCase.of(schema)
    with pytest.raises(InvalidDataError, match="schema") as caught:
        case.create(pa.table({"id": ["a"], "n": pa.array([None], pa.int64())}))
    assert caught.value.path is not None
    assert case.store.head(str(caught.value.path)) is None


def test_a_failing_source_leaves_no_file(case: HandleCase) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from handle_input(rows(10)).to_batches()
        raise RuntimeError("source died")

    with pytest.raises(RuntimeError, match="source died"):
        case.create_from(broken())
    assert not [info for info in case.store.list("day=1") if info.path.endswith(".parquet")]


def test_keys_beyond_ascii_are_found_in_bloom_and_range(case: HandleCase) -> None:
    keys = ["é", "日本", "😀", "\uff5e", "a/b c%", "x" * 500]
    table = pa.table({"id": keys, "n": range(6), "text": keys})
    (stat,) = case.create(table)
    bloom = case.footer(stat).bloom
    assert bloom is not None
    assert bloom.might_contain(pa.array(keys)).all()
    assert (case.footer(stat).min_key, case.footer(stat).max_key) == ("a/b c%", "\uff5e")


def test_local_files_are_plain_parquet(tmp_path: Path) -> None:
    case = HandleCase.of(SCHEMA, LocalStore(str(tmp_path)))
    (stat,) = case.create(rows(50))
    case.check(stat, MarkerKind.CREATE)
    file = pq.ParquetFile(tmp_path / (stat.path or ""))
    assert b"ARROW:schema" not in file.metadata.metadata
    assert file.read().num_rows == 50


def test_repeating_values_are_dictionary_encoded_and_unique_ones_are_not() -> None:
    case = HandleCase.of(SCHEMA)
    table = rows(5_000)
    table = table.set_column(1, "n", pa.array([number % 7 for number in range(5_000)]))
    (stat,) = case.create(table)
    group = case.metadata(stat).row_group(0)
    encoded = {
        group.column(index).path_in_schema: group.column(index).has_dictionary_page
        for index in range(group.num_columns)
    }
    assert encoded == {
        "_hoodie_commit_time": True,
        "_hoodie_commit_seqno": False,
        "_hoodie_record_key": False,
        "_hoodie_partition_path": True,
        "_hoodie_file_name": True,
        "id": False,
        "n": True,
        "text": False,
    }


def test_the_context_binds_to_a_task() -> None:
    case = HandleCase.of(SCHEMA)
    ctx = replace(case.ctx, write_token="0-0-0").for_task(4, 15, 16)
    (stat,) = create_base_files(ctx, case.store, "p", "f", handle_input(rows(1)).to_batches())
    assert stat.path == f"p/f-0_4-15-16_{FIRST}.parquet"
