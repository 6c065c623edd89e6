"""Which pages of a base file go into the next one as they are, and which files are taken apart."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from hashlib import shake_256
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError
from tideline.hudi.file_group.file_settings import ParquetSettings
from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.parquet.calendar import SPARK_VERSION_KEY
from tideline.parquet.compact_protocol import (
    Kind,
    Struct,
    decode_struct,
    encode_struct,
)
from tideline.parquet.encoding import ParquetCodec
from tideline.parquet.schema_nodes import top_columns
from tideline.parquet.spliced_file import StoredParquet
from tideline.parquet.stored_footer import (
    ChunkField,
    ColumnField,
    FooterField,
    GroupField,
    StatisticsField,
    file_tail,
)
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.handle_case import HandleCase, base_file

ROWS = 250
GROUP_ROWS = 100
PARQUET = ParquetSettings(copied_bytes_min=0, row_group_rows_max=GROUP_ROWS)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("body", pa.string()),
    ]
)
CHANGED = "n"
META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")


def rows(numbers: range | list[int], *, n: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number:04d}" for number in numbers],
            "n": pa.array([n] * len(numbers), pa.int32()),
            "x": [number / 4 for number in numbers],
            "at": pa.array(numbers, pa.timestamp("us", "UTC")),
            "body": [shake_256(str(number).encode()).hexdigest(100) for number in numbers],
        },
        schema=SCHEMA,
    )


def stored(parquet: ParquetSettings = PARQUET, **settings: Any) -> tuple[HandleCase, WriteStat]:
    """Three row groups, the last one half full; updates change one column."""
    settings = {"partial_update_columns": (CHANGED,), **settings}
    case = HandleCase.of(SCHEMA, parquet=parquet, **settings)
    (stat,) = case.create(rows(range(ROWS)))
    return case, stat


def opened(case: HandleCase, stat: WriteStat) -> StoredParquet:
    return StoredParquet.of_bytes(memoryview(case.store.get(stat.path or "")), path="memory")


def may_hold_copies(case: HandleCase, stat: WriteStat) -> bool:
    return opened(case, stat).footer.created_by.startswith("tideline version")


def pages(file: StoredParquet) -> list[dict[str, bytes]]:
    """The bytes of every column of every row group."""
    names = top_columns(file.nodes)
    return [
        {
            name: b"".join(
                file.read(group.chunks[leaf].start, group.chunks[leaf].size_bytes)
                for leaf in column.leaves
            )
            for name, column in names.items()
        }
        for group in file.footer.row_groups
    ]


def changed_columns(case: HandleCase, before: WriteStat, after: WriteStat) -> list[set[str]]:
    """Columns whose bytes are others, of each row group."""
    pairs = zip(pages(opened(case, before)), pages(opened(case, after)), strict=True)
    return [{name for name in old if old[name] != new[name]} for old, new in pairs]


def group_rows(case: HandleCase, stat: WriteStat) -> list[int]:
    return [group.rows for group in opened(case, stat).footer.row_groups]


def test_columns_that_no_update_changes_are_copied() -> None:
    case, base = stored()
    stat = case.merge(base, rows([3, 4, 120], n=7))
    case.check(stat, MarkerKind.MERGE)
    changed = {*META, CHANGED}
    assert changed_columns(case, base, stat) == [changed, changed, {META[2]}]
    found = case.read(stat)
    assert found.column("n").to_pylist() == [7 if n in (3, 4, 120) else 0 for n in range(ROWS)]
    assert found.drop_columns([*changed]).equals(case.read(base).drop_columns([*changed]))


def test_row_groups_in_which_nothing_is_replaced_are_copied() -> None:
    case, base = stored(partial_update_columns=None)
    stat = case.merge(base, rows(range(110, 190), n=7))
    case.check(stat, MarkerKind.MERGE)
    first, second, third = changed_columns(case, base, stat)
    assert first == third == {META[2]}
    assert CHANGED in second


def test_keys_in_no_order_are_looked_up_when_they_are_few() -> None:
    case = HandleCase.of(SCHEMA, parquet=PARQUET)
    shuffled = [number * 77 % ROWS for number in range(ROWS)]
    (base,) = case.create(rows(shuffled))
    stat = case.merge(base, rows([shuffled[150]], n=7))
    assert [META[2]] == sorted(changed_columns(case, base, stat)[0])
    many = case.merge(stat, rows(range(0, ROWS, 2), n=8))
    assert not may_hold_copies(case, many)


def test_a_row_group_that_rows_are_deleted_from_is_encoded() -> None:
    case, base = stored()
    stat = case.merge(base, rows([3, 120], n=7), deletes=[False, True])
    case.check(stat, MarkerKind.MERGE)
    assert group_rows(case, stat) == [100, 99, 50]
    first, second, third = changed_columns(case, base, stat)
    assert (first, third) == ({*META, CHANGED}, {META[2]})
    assert "body" in second
    assert (
        case.read(stat).column("id").to_pylist()
        == rows([number for number in range(ROWS) if number != 120]).column("id").to_pylist()
    )


def test_few_new_rows_go_into_the_last_row_group_and_many_into_their_own() -> None:
    case, base = stored()
    stat = case.merge(base, rows([3, 900], n=7))
    case.check(stat, MarkerKind.MERGE)
    assert group_rows(case, stat) == [100, 100, 51]
    more = case.merge(stat, rows(range(1000, 1060), n=7))
    case.check(more, MarkerKind.MERGE)
    assert group_rows(case, more) == [100, 100, 51, 60]
    assert pages(opened(case, stat))[2]["body"] == pages(opened(case, more))[2]["body"]


def test_a_small_rest_of_a_row_group_is_not_left_alone() -> None:
    case, base = stored(partial_update_columns=None)
    stat = case.merge(base, rows(range(97), n=7), deletes=[True] * 97)
    case.check(stat, MarkerKind.MERGE)
    assert group_rows(case, stat) == [100, 53]


def test_rows_that_are_only_appended_leave_full_row_groups_as_they_are() -> None:
    case, base = stored(merges_inserts=False)
    stat = case.merge(base, rows([3, 5], n=7))
    case.check(stat, MarkerKind.MERGE)
    assert group_rows(case, stat) == [100, 100, 52]
    first, second, _ = changed_columns(case, base, stat)
    assert first == second == {META[2]}
    assert case.read(stat).column("id").to_pylist()[-2:] == ["k0003", "k0005"]


def test_a_file_without_meta_columns_is_copied_but_for_what_is_updated() -> None:
    settings: dict[str, Any] = {"populate_meta_fields": False, "virtual_key_fields": ("id",)}
    case, base = stored(**settings)
    stat = case.merge(base, rows([3], n=7))
    assert changed_columns(case, base, stat)[0] == {CHANGED}
    assert case.read(stat).column("n").to_pylist() == [7 if n == 3 else 0 for n in range(ROWS)]


def test_a_chain_of_merges_goes_on_from_copies() -> None:
    case, stat = stored()
    expected = [0] * ROWS
    for turn in range(1, 6):
        touched = list(range(turn, ROWS, 7 * turn))
        for number in touched:
            expected[number] = turn
        stat = case.merge(stat, rows(touched, n=turn))
        case.check(stat, MarkerKind.MERGE)
        assert may_hold_copies(case, stat)
    found = case.read(stat)
    assert found.column("n").to_pylist() == expected
    assert found.column("body").equals(rows(range(ROWS)).column("body"))


def test_ranges_of_a_remote_file_are_read_once_a_row_group() -> None:
    case, base = stored()
    before = base_file(base, size_bytes=0)
    stat = case.merge(before, rows([3, 4, 120], n=7))
    assert may_hold_copies(case, stat)
    assert changed_columns(case, base, stat)[2] == {META[2]}


@pytest.mark.parametrize("size_bytes", [0, None], ids=["in ranges", "in memory"])
def test_pages_that_are_missing_are_a_corrupt_file(size_bytes: int | None) -> None:
    case, base = stored()
    path = base.path or ""
    body = case.store.get(path)
    length = int.from_bytes(body[-8:-4], "little")
    group = opened(case, base).footer.row_groups[1]
    # The footer is whole, and says of the second row group that it lies beyond the file.
    case.store.put(path, body[: group.start + 10] + body[-8 - length :])
    with pytest.raises(CorruptTableError):
        case.merge(base_file(base, size_bytes=size_bytes), rows([3], n=7))


def test_a_merge_that_dies_while_it_copies_leaves_nothing_unmarked() -> None:
    case, base = stored()
    inner = case.store
    body = inner.get(base.path or "")
    for write in (1, 2):
        for plan in (FaultPlan(crash_before_write=write), FaultPlan(crash_after_write=write)):
            case.store = FaultyStore(inner, plan)
            with pytest.raises(SimulatedCrash):
                case.merge(base, rows([3], n=7))
            assert inner.get(base.path or "") == body
    case.store = inner
    assert may_hold_copies(case, case.merge(base, rows([3], n=7)))


def rewritten(case: HandleCase, stat: WriteStat, table: pa.Table, **options: Any) -> None:
    """Put other bytes where a file is."""
    kept = case.metadata(stat).metadata or {}
    sink = io.BytesIO()
    options = {"compression": "snappy", "row_group_size": GROUP_ROWS, **options}
    entries = {key.encode(): value for key, value in options.pop("entries", {}).items()}
    schema = table.schema
    with pq.ParquetWriter(
        sink,
        schema,
        store_schema=False,
        **{name: value for name, value in options.items() if name != "row_group_size"},
    ) as writer:
        writer.write_table(table, row_group_size=options["row_group_size"])
        writer.add_key_value_metadata({**kept, **entries})
    case.store.put(stat.path or "", sink.getvalue())


OTHERS: dict[str, Callable[[pa.Table], tuple[pa.Table, dict[str, Any]]]] = {
    "codec": lambda table: (table, {"compression": "zstd"}),
    "uncompressed": lambda table: (table, {"compression": "none"}),
    "delta encoding": lambda table: (
        table,
        {"use_dictionary": False, "column_encoding": {"body": "DELTA_LENGTH_BYTE_ARRAY"}},
    ),
    "int96": lambda table: (table, {"use_deprecated_int96_timestamps": True}),
    "old calendar": lambda table: (table, {"entries": {SPARK_VERSION_KEY: "2.4.0"}}),
    "small row groups": lambda table: (table, {"row_group_size": 3}),
    "a column that the table lacks": lambda table: (table.append_column("z", table["n"]), {}),
    "a column is missing": lambda table: (table.drop_columns(["x"]), {}),
    "another type": lambda table: (
        table.set_column(6, "n", table["n"].cast(pa.int16()).cast(pa.int32()).cast(pa.int8())),
        {},
    ),
    "another order": lambda table: (table.select([*table.column_names[::-1]]), {}),
    "another case": lambda table: (
        table.rename_columns(["BODY" if name == "body" else name for name in table.column_names]),
        {},
    ),
    "a required column": lambda table: (
        table.cast(pa.schema([field.with_nullable(field.name != "x") for field in table.schema])),
        {},
    ),
}


def test_columns_that_are_uncompressed_next_to_compressed_ones_are_copied() -> None:
    case, base = stored()
    table = case.read(base)
    codecs = {name: "none" if name == "body" else "snappy" for name in table.column_names}
    rewritten(case, base, table, compression=codecs)
    stat = case.merge(base_file(base, size_bytes=None), rows([3, 120], n=7))
    assert may_hold_copies(case, stat)
    assert pages(opened(case, base))[0]["body"] == pages(opened(case, stat))[0]["body"]


@pytest.mark.parametrize("other", sorted(OTHERS))
def test_a_file_that_is_stored_otherwise_is_taken_apart(other: str) -> None:
    case, base = stored()
    table, options = OTHERS[other](case.read(base))
    rewritten(case, base, table, **options)
    stat = case.merge(base_file(base, size_bytes=None), rows([3, 120], n=7))
    assert not may_hold_copies(case, stat)
    found = case.read(stat)
    assert found.schema.field("n").type == pa.int32()
    assert found.column("n").to_pylist() == [7 if n in (3, 120) else 0 for n in range(ROWS)]
    assert found.column("body").equals(rows(range(ROWS)).column("body"))


@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_a_file_that_is_stored_alike_is_copied_without_its_page_indexes(pages: str) -> None:
    case, base = stored()
    rewritten(case, base, case.read(base), write_page_index=True, data_page_version=pages)
    assert case.metadata(base).row_group(0).column(0).has_offset_index
    stat = case.merge(base, rows([3, 120], n=7))
    assert may_hold_copies(case, stat)
    group = case.metadata(stat).row_group(0)
    assert not any(group.column(leaf).has_offset_index for leaf in range(group.num_columns))


def edited(case: HandleCase, stat: WriteStat, edit: Callable[[Struct], None]) -> None:
    """Change the footer of a file."""
    body = case.store.get(stat.path or "")
    length = int.from_bytes(body[-8:-4], "little")
    footer = decode_struct(body[-8 - length : -8])
    edit(footer)
    encoded = encode_struct(footer)
    case.store.put(stat.path or "", body[: -8 - length] + encoded + file_tail(encoded))


def of_old_java(footer: Struct) -> None:
    footer.put(FooterField.CREATED_BY, Kind.BINARY, b"parquet-mr version 1.8.1 (build 4aba4da)")


def without_our_mark(footer: Struct) -> None:
    pairs = footer.get(FooterField.KEY_VALUES)
    pairs.items[:] = [pair for pair in pairs.items if pair.get(1) != SPARK_VERSION_KEY.encode()]


def with_nan_bound(footer: Struct) -> None:
    group = footer.get(FooterField.ROW_GROUPS).items[0]
    chunk = group.get(GroupField.COLUMNS).items[7]
    statistics = chunk.get(ChunkField.METADATA).get(ColumnField.STATISTICS)
    statistics.put(StatisticsField.GREATEST, Kind.BINARY, struct.pack("<d", float("nan")))


def of_another_order(footer: Struct) -> None:
    footer.drop(FooterField.COLUMN_ORDERS)


@pytest.mark.parametrize("edit", [of_old_java, without_our_mark, with_nan_bound, of_another_order])
def test_bounds_that_mislead_readers_are_not_copied(edit: Callable[[Struct], None]) -> None:
    case, base = stored()
    edited(case, base, edit)
    stat = case.merge(base_file(base, size_bytes=None), rows([3], n=7))
    assert not may_hold_copies(case, stat)
    assert case.read(stat).column("x").equals(rows(range(ROWS)).column("x"))


def test_nan_keeps_the_bounds_away_that_it_kept_away_before() -> None:
    case = HandleCase.of(SCHEMA, parquet=PARQUET, partial_update_columns=(CHANGED,))
    first = rows(range(ROWS))
    values = first.column("x").to_pylist()
    values[5] = float("nan")
    (base,) = case.create(first.set_column(2, "x", pa.array(values)))
    stat = case.merge(base, rows([3, 120], n=7))
    assert may_hold_copies(case, stat)
    bounds = [
        case.metadata(stat).row_group(number).column(7).statistics.has_min_max
        for number in range(3)
    ]
    assert bounds == [False, True, True]


@pytest.mark.parametrize(
    "parquet",
    [
        ParquetSettings(row_group_rows_max=GROUP_ROWS),
        ParquetSettings(copied_bytes_min=0, row_group_rows_max=GROUP_ROWS, codec=ParquetCodec.GZIP),
    ],
    ids=["few bytes", "another codec from now on"],
)
def test_settings_may_ask_for_every_column_to_be_encoded(parquet: ParquetSettings) -> None:
    case, base = stored()
    stat = case.merge(base, rows([3], n=7), parquet=parquet)
    assert not may_hold_copies(case, stat)


def test_updates_of_most_columns_are_encoded() -> None:
    case, base = stored(partial_update_columns=("n", "body"))
    stat = case.merge(base, rows(range(0, ROWS, 5), n=7))
    assert not may_hold_copies(case, stat)
