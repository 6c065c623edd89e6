"""Rewriting base files: what is copied, replaced, deleted and appended."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import ConfigError, CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.hudi.file_group.file_settings import BloomSettings, ParquetSettings
from tideline.hudi.file_group.merge_handle import merge_base_file
from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.table.properties import MergeMode
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.storage.local.store import LocalStore
from tideline.testing.handle_case import FIRST, HandleCase, base_file, handle_input

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
EVENT_TIME: dict[str, Any] = {
    "merge_mode": MergeMode.EVENT_TIME_ORDERING,
    "ordering_fields": ("ts",),
}


def rows(*values: tuple[str, int | None, str | None]) -> pa.Table:
    ids, times, texts = zip(*values, strict=True) if values else ((), (), ())
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "ts": pa.array(times, pa.int64()),
            "v": pa.array(texts, pa.string()),
        }
    )


STORED = rows(("a", 5, "a0"), ("b", 5, "b0"), ("c", 5, "c0"), ("d", 5, "d0"))


def stored(**settings: Any) -> tuple[HandleCase, WriteStat]:
    case = HandleCase.of(SCHEMA, **settings)
    (stat,) = case.create(STORED)
    return case, stat


def values(case: HandleCase, stat: WriteStat) -> list[tuple[str, int, str]]:
    return [(row["id"], row["ts"], row["v"]) for row in case.rows(stat)]


def test_updates_stay_in_place_and_new_rows_come_last() -> None:
    case, base = stored()
    stat = case.merge(base, rows(("x", 1, "x1"), ("c", 1, "c1"), ("a", 9, "a1")))
    case.check(stat, MarkerKind.MERGE)
    assert values(case, stat) == [
        ("a", 9, "a1"),
        ("b", 5, "b0"),
        ("c", 1, "c1"),
        ("d", 5, "d0"),
        ("x", 1, "x1"),
    ]


def test_statistics_are_those_of_a_merge() -> None:
    case, base = stored()
    stat = case.merge(
        base,
        rows(("a", 1, "a1"), ("b", 1, "b1"), ("x", 1, "x1"), ("y", 1, "y1")),
        deletes=[False, True, False, True],
    )
    assert stat.prev_commit == str(FIRST)
    assert stat.file_id == base.file_id
    assert (stat.num_writes, stat.num_update_writes, stat.num_inserts) == (4, 1, 1)
    assert stat.num_deletes == 2
    assert stat.runtime_stats is not None


def test_copied_rows_keep_their_meta_columns_but_the_file_name() -> None:
    case, base = stored()
    stat = case.merge(base, rows(("c", 1, "c1"), ("x", 1, "x1")))
    found = case.read(stat).to_pylist()
    second = str(case.ctx.instant)
    assert [row["_hoodie_commit_time"] for row in found] == [
        str(FIRST),
        str(FIRST),
        second,
        str(FIRST),
        second,
    ]
    assert [row["_hoodie_commit_seqno"] for row in found] == [
        f"{FIRST}_7_0",
        f"{FIRST}_7_1",
        f"{second}_7_2",
        f"{FIRST}_7_3",
        f"{second}_7_4",
    ]
    assert {row["_hoodie_file_name"] for row in found} == {(stat.path or "").split("/")[1]}


def test_row_numbers_count_rows_as_they_stand_after_deletes() -> None:
    case, base = stored()
    stat = case.merge(
        base, rows(("a", 1, "-"), ("d", 1, "d1"), ("x", 1, "x1")), deletes=[True, False, False]
    )
    numbers = [row["_hoodie_commit_seqno"].split("_")[2] for row in case.read(stat).to_pylist()]
    assert numbers == ["1", "2", "2", "3"]


def test_deletes_drop_rows_and_deletes_of_unknown_keys_do_nothing() -> None:
    case, base = stored()
    stat = case.merge(base, rows(("b", 1, None), ("zz", 1, None)), deletes=[True, True])
    case.check(stat, MarkerKind.MERGE)
    assert [row[0] for row in values(case, stat)] == ["a", "c", "d"]
    assert stat.num_deletes == 2


def test_deleting_every_row_leaves_an_empty_file() -> None:
    case, base = stored()
    stat = case.merge(base, STORED, deletes=[True] * 4)
    case.check(stat, MarkerKind.MERGE)
    assert (stat.num_writes, stat.num_deletes) == (0, 4)
    again = case.merge(stat, rows(("a", 1, "back")))
    case.check(again, MarkerKind.MERGE)
    assert values(case, again) == [("a", 1, "back")]


def test_no_incoming_rows_copy_the_file() -> None:
    case, base = stored()
    stat = case.merge(base, rows())
    case.check(stat, MarkerKind.MERGE)
    assert values(case, stat) == values(case, base)
    assert (stat.num_writes, stat.num_update_writes, stat.num_inserts) == (4, 0, 0)


def test_the_last_of_several_incoming_rows_with_one_key_counts() -> None:
    case, base = stored()
    incoming = rows(("x", 1, "first"), ("a", 1, "first"), ("a", 2, "last"), ("x", 2, "last"))
    stat = case.merge(base, incoming)
    assert values(case, stat)[0] == ("a", 2, "last")
    assert values(case, stat)[4:] == [("x", 2, "last")]
    assert (stat.num_update_writes, stat.num_inserts) == (1, 1)


def test_duplicate_stored_keys_are_all_updated() -> None:
    case = HandleCase.of(SCHEMA)
    (base,) = case.create(rows(("a", 1, "1"), ("b", 1, "1"), ("a", 2, "2")))
    stat = case.merge(base, rows(("a", 3, "3")))
    assert values(case, stat) == [("a", 3, "3"), ("b", 1, "1"), ("a", 3, "3")]
    assert stat.num_update_writes == 2


def test_event_time_ordering_keeps_the_later_row_and_ties_go_to_the_incoming() -> None:
    case, base = stored(**EVENT_TIME)
    stat = case.merge(base, rows(("a", 4, "late"), ("b", 5, "tie"), ("c", 6, "newer")))
    assert [row[2] for row in values(case, stat)] == ["a0", "tie", "newer", "d0"]
    assert (stat.num_update_writes, stat.num_inserts) == (2, 0)
    late = case.read(stat).to_pylist()[0]
    assert late["_hoodie_commit_time"] == str(FIRST)


def test_event_time_ordering_holds_for_deletes() -> None:
    case, base = stored(**EVENT_TIME)
    stat = case.merge(base, rows(("a", 4, None), ("b", 6, None)), deletes=[True, True])
    assert [row[0] for row in values(case, stat)] == ["a", "c", "d"]
    assert stat.num_deletes == 1


def test_a_null_ordering_value_on_either_side_lets_the_incoming_row_win() -> None:
    case = HandleCase.of(SCHEMA, **EVENT_TIME)
    (base,) = case.create(rows(("a", None, "a0"), ("b", 5, "b0")))
    stat = case.merge(base, rows(("a", 1, "a1"), ("b", None, "b1")))
    assert [row[2] for row in values(case, stat)] == ["a1", "b1"]


def test_commit_time_ordering_lets_older_rows_win() -> None:
    case, base = stored(ordering_fields=("ts",))
    stat = case.merge(base, rows(("a", 1, "older")))
    assert values(case, stat)[0] == ("a", 1, "older")


def test_only_named_columns_are_updated() -> None:
    case, base = stored(partial_update_columns=("v",))
    stat = case.merge(
        base,
        rows(("b", 99, "b1"), ("c", None, "gone"), ("x", 7, "x1")),
        deletes=[False, True, False],
    )
    case.check(stat, MarkerKind.MERGE)
    assert values(case, stat) == [("a", 5, "a0"), ("b", 5, "b1"), ("d", 5, "d0"), ("x", 7, "x1")]
    assert case.read(stat)["_hoodie_commit_time"].to_pylist()[1] == str(case.ctx.instant)


def test_a_column_to_update_that_does_not_exist_is_refused() -> None:
    case, base = stored(partial_update_columns=("v", "nope"))
    with pytest.raises(ConfigError, match="nope"):
        case.merge(base, rows(("a", 1, "a1")))


def test_without_merging_inserts_are_appended_and_duplicates_kept() -> None:
    case, base = stored(merges_inserts=False)
    stat = case.merge(base, rows(("a", 9, "again"), ("x", 1, "x1"), ("x", 1, "x2")))
    case.check(stat, MarkerKind.MERGE)
    assert values(case, stat)[4:] == [("a", 9, "again"), ("x", 1, "x1"), ("x", 1, "x2")]
    assert (stat.num_writes, stat.num_update_writes, stat.num_inserts) == (7, 0, 3)


def test_a_merge_never_rolls() -> None:
    case, base = stored()
    case.ctx = replace(case.ctx, parquet=ParquetSettings(file_size_bytes_max=100))
    many = rows(*[(f"k{n:05d}", 1, "x" * 50) for n in range(2_000)])
    stat = case.merge(base, many)
    case.check(stat, MarkerKind.MERGE)
    assert stat.num_writes == 2_004


def test_the_footer_goes_on_from_the_old_one() -> None:
    case, base = stored()
    stat = case.merge(base, rows(("0", 1, "x"), ("b", 1, "y"), ("d", 1, None)),
                      deletes=[False, False, True])  # fmt: skip
    footer = case.footer(stat)
    assert (footer.min_key, footer.max_key) == ("0", "d")
    assert footer.bloom is not None
    # A deleted key stays in the filter: removing it is impossible and a false positive harmless.
    assert footer.bloom.might_contain(pa.array(["d"])).all()


def test_the_footer_is_rebuilt_when_most_rows_are_gone() -> None:
    case, base = stored()
    stat = case.merge(base, rows(("b", 1, "-"), ("c", 1, "-"), ("d", 1, "-"), ("a2", 1, "new")),
                      deletes=[True, True, True, False])  # fmt: skip
    footer = case.footer(stat)
    assert (footer.min_key, footer.max_key) == ("a", "a2")
    assert footer.bloom is not None
    assert footer.bloom.might_contain(pa.array(["a", "b", "c", "d", "a2"])).tolist() == [
        True, False, False, False, True,
    ]  # fmt: skip


def more(first: int, count: int) -> pa.Table:
    return rows(*[(f"k{n:05d}", 1, "x") for n in range(first, first + count)])


def test_a_filter_goes_on_while_it_has_room_and_is_made_anew_for_more_keys() -> None:
    case, stat = stored()
    sizes = []
    for first, count in ((0, 30), (30, 30), (60, 1), (61, 200), (261, 1000), (1261, 5000)):
        stat = case.merge(stat, more(first, count))
        case.check(stat, MarkerKind.MERGE)
        bloom = case.footer(stat).bloom
        assert bloom is not None
        sizes.append((bloom.keys_per_row, bloom.row_count))
    # The largest is for 2,000; from there on rows are added, for 100,000 keys at most.
    assert sizes == [(64, 1), (64, 1), (128, 1), (512, 1), (2000, 1), (2000, 4)]


def test_a_filter_that_is_not_wanted_any_more_goes() -> None:
    case, base = stored()
    case.ctx = replace(case.ctx, bloom=BloomSettings(is_written=False))
    stat = case.merge(base, rows(("0", 1, "x")))
    footer = case.footer(stat)
    assert footer.bloom is None
    assert (footer.min_key, footer.max_key) == ("0", "d")


def test_a_base_file_without_a_bloom_filter_gets_one() -> None:
    case, base = stored()
    path = base.path or ""
    plain = case.read(base).replace_schema_metadata(None)
    with case.store.open_writer(path) as stream:
        pq.write_table(plain, stream)
    assert case.footer(base).bloom is None
    stat = case.merge(base, rows(("c", 1, "-"), ("x", 1, "x1")), deletes=[True, False])
    case.check(stat, MarkerKind.MERGE)
    bloom = case.footer(stat).bloom
    assert bloom is not None
    assert bloom.might_contain(pa.array(["a", "c", "x"])).tolist() == [True, False, True]


@pytest.mark.parametrize("early", [False, True])
def test_days_in_spark_s_old_calendar_are_refused_where_they_are_others(early: bool) -> None:
    case = HandleCase.of(pa.schema([("id", pa.string()), ("day", pa.date32())]))
    days = pa.table({"id": ["a", "b"], "day": [None, dt.date(1500 if early else 1600, 1, 1)]})
    (base,) = case.create(days)
    stored = case.read(base).replace_schema_metadata(None)
    entries = {"org.apache.spark.version": "3.5.8", "org.apache.spark.legacyDateTime": ""}
    with (
        case.store.open_writer(base.path or "") as stream,
        pq.ParquetWriter(stream, stored.schema) as writer,
    ):
        writer.write_table(stored)
        writer.add_key_value_metadata(entries)
    if early:
        with pytest.raises(UnsupportedTableError, match=r"column day .*value=1500-01-01"):
            case.merge(base, days.slice(0, 1))
        return
    merged = case.merge(base, days.slice(0, 1))
    assert case.rows(merged) == days.to_pylist()
    assert b"org.apache.spark.legacyDateTime" not in case.metadata(merged).metadata


def test_deleted_and_replaced_values_are_not_in_the_new_file() -> None:
    case = HandleCase.of(SCHEMA)
    repeated = [(f"k{n:04d}", 1, ["SECRET", "plain"][n % 2]) for n in range(1000)]
    (base,) = case.create(rows(*repeated))
    assert b"SECRET" in case.store.get(base.path or "")
    stat = case.merge(base, rows(*[(k, 1, "clean") for k, _, v in repeated if v == "SECRET"]))
    assert b"SECRET" not in case.store.get(stat.path or "")
    gone = rows(*[(k, 1, None) for k, _, v in repeated if v == "plain"])
    last = case.merge(stat, gone, deletes=[True] * 500)
    assert b"plain" not in case.store.get(last.path or "")
    assert {row["v"] for row in case.rows(last)} == {"clean"}


def test_columns_added_and_widened_since_are_brought_to_the_new_schema() -> None:
    old = pa.schema([("id", pa.string()), ("n", pa.int32()), ("gone", pa.string())])
    case = HandleCase.of(old)
    (base,) = case.create(pa.table({"id": ["a", "b"], "n": pa.array([1, 2], pa.int32()),
                                    "gone": ["x", "y"]}))  # fmt: skip
    new = pa.schema([("N2", pa.string()), ("id", pa.string()), ("n", pa.float64())])
    incoming = pa.table({"N2": ["s"], "id": ["b"], "n": [2.5]})
    stat = case.merge(base, incoming, schema=new)
    case.check(stat, MarkerKind.MERGE)
    assert case.rows(stat) == [
        {"N2": None, "id": "a", "n": 1.0},
        {"N2": "s", "id": "b", "n": 2.5},
    ]


def test_tables_without_meta_columns_find_keys_in_the_key_columns() -> None:
    schema = pa.schema([("k", pa.int64()), ("id", pa.string()), ("v", pa.string())])
    case = HandleCase.of(schema, populate_meta_fields=False, virtual_key_fields=("k", "id"))
    base_rows = pa.table({"k": [1, 2, None], "id": ["x", "", "z"], "v": ["1", "2", "3"]})
    (base,) = case.create(base_rows)
    keys = ["k:2,id:__empty__", "k:__null__,id:z", "k:9,id:n"]
    incoming = pa.table({"id": ["", "z", "n"], "k": [2, None, 9], "v": ["2b", None, "new"]})
    keyed = incoming.append_column("key", pa.array(keys))
    case.advance()
    (stat,) = merge_base_file(
        case.ctx,
        case.store,
        base_file(base),
        handle_input(keyed, key="key", deletes=[False, True, False]),
    )
    assert case.read(stat).to_pylist() == [
        {"k": 1, "id": "x", "v": "1"},
        {"k": 2, "id": "", "v": "2b"},
        {"k": 9, "id": "n", "v": "new"},
    ]
    assert case.footer(stat).bloom is None


def test_rows_without_a_key_are_refused() -> None:
    case, base = stored()
    with pytest.raises(InvalidDataError, match="2 incoming rows without a record key"):
        case.merge(base, pa.Table.from_pylist([{}, {}], SCHEMA))


def test_a_missing_base_file_is_named() -> None:
    case, base = stored()
    case.store.delete(base.path or "")
    with pytest.raises(CorruptTableError, match="missing") as caught:
        case.merge(base, rows(("a", 1, "a1")))
    assert caught.value.path == base.path
    assert caught.value.table == "t"


@pytest.mark.parametrize("keep", [0, 10, 2000])
def test_a_truncated_base_file_is_named_and_leaves_no_new_file(keep: int) -> None:
    case, base = stored()
    path = base.path or ""
    case.store.put(path, case.store.get(path)[:keep])
    with pytest.raises(CorruptTableError) as caught:
        case.merge(base, rows(("a", 1, "a1")))
    assert caught.value.path == path
    assert len([i for i in case.store.list("day=1") if i.path.endswith(".parquet")]) == 1


def test_damaged_pages_are_reported_as_a_corrupt_file() -> None:
    case, base = stored(parquet=ParquetSettings())
    path = base.path or ""
    body = bytearray(case.store.get(path))
    body[4:400] = b"\xff" * 396
    case.store.put(path, bytes(body))
    with pytest.raises(CorruptTableError, match="cannot be read"):
        case.merge(base, rows(("a", 1, "a1")))


def test_a_base_file_without_meta_columns_in_a_table_with_them_is_refused() -> None:
    case, base = stored()
    with case.store.open_writer(base.path or "") as stream:
        pq.write_table(STORED, stream)
    with pytest.raises(CorruptTableError, match="lacks meta columns"):
        case.merge(base, rows(("a", 1, "a1")))


def test_many_row_groups_and_batches_merge_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_BYTES", 1)
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_ROWS_MIN", 7)
    case = HandleCase.of(SCHEMA, parquet=ParquetSettings(row_group_rows_max=30))
    all_rows = [(f"k{n:03d}", 1, ["x", "y", "z"][n % 3]) for n in range(100)]
    (base,) = case.create(rows(*all_rows))
    incoming = [(f"k{n:03d}", 2, "new") for n in range(0, 120, 10)]
    stat = case.merge(base, rows(*incoming))
    case.check(stat, MarkerKind.MERGE)
    expected = {row[0]: row for row in all_rows} | {row[0]: row for row in incoming}
    assert values(case, stat) == list(expected.values())
    group_rows = [case.metadata(stat).row_group(n).num_rows for n in range(4)]
    assert group_rows == [30, 30, 30, 12]


def test_merging_works_on_a_local_folder(tmp_path: Path) -> None:
    case = HandleCase.of(SCHEMA, LocalStore(str(tmp_path)))
    (base,) = case.create(STORED)
    stat = case.merge(base, rows(("b", 1, "b1")))
    case.check(stat, MarkerKind.MERGE)
    assert pq.read_table(tmp_path / (stat.path or ""), partitioning=None)["v"].to_pylist() == [
        "a0", "b1", "c0", "d0",
    ]  # fmt: skip
