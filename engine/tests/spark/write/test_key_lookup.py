"""Finding stored keys: in one task without Spark, and over many files with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tideline.errors import CorruptTableError, InvalidDataError
from tideline.formats.bloom import BloomFilter
from tideline.formats.parquet_footer import BaseFileFooter, read_footer
from tideline.hudi.file_group import wanted_keys
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.file_group.stored_key_lookup import (
    LOCATED,
    LOCATED_FILE,
    LookupSettings,
    StoredKeyLookup,
)
from tideline.hudi.file_group.stored_keys import some_stored_keys
from tideline.hudi.table.file_group import BaseFile, FileSlice
from tideline.spark.task_errors import carried_errors, raised_errors
from tideline.spark.write import key_lookup
from tideline.spark.write.key_lookup import CHUNK, LookUpKeys, locate_keys
from tideline.storage.location import StoreLocation
from tideline.testing.handle_case import HandleCase, base_file

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int32())])
INCOMING = pa.schema(
    [
        (CHUNK, pa.int32()),
        ("_hoodie_record_key", pa.string()),
        ("_hoodie_partition_path", pa.string()),
    ]
)
SIMPLE = LookupSettings(reads_bloom_filters=False, prunes_by_ranges=True)
BLOOM = LookupSettings(reads_bloom_filters=True, prunes_by_ranges=True)


def rows(keys: Iterable[str], ts: int = 1) -> pa.Table:
    ids = list(keys)
    return pa.table({"id": ids, "ts": [ts] * len(ids)}, schema=SCHEMA)


class Stored:
    """File slices of base files with these keys in a local folder."""

    def __init__(self, folder: Path) -> None:
        self.location = StoreLocation.of(folder)
        self.case = HandleCase.of(SCHEMA, self.location.open())
        self.files: list[BaseFile] = []

    def add(self, keys: Iterable[str], partition: str = "p", ts: int = 1) -> BaseFile:
        self.case.partition = partition
        prefix = f"{len(self.files):08d}-0000-0000-0000-000000000000"
        table = rows(keys, ts)
        # A file without rows comes of rows that only delete.
        deletes = None if table.num_rows else [True]
        table = table if table.num_rows else rows(["deleted"])
        (stat,) = self.case.create(table, deletes=deletes, file_id_prefix=prefix)
        self.files.append(base_file(stat))
        return self.files[-1]

    @property
    def candidates(self) -> tuple[LookupCandidate, ...]:
        return tuple(
            LookupCandidate(FileSlice(file.group, file.instant, file)) for file in self.files
        )

    def path(self, number: int) -> Path:
        return Path(self.location.open().local_path(self.files[number].path) or "")

    def look_up(
        self, keys: Iterable[str], settings: LookupSettings = SIMPLE, ordering: bool = False
    ) -> list[tuple[Any, ...]]:
        """(key, number of the file, ordering value) as one task answers for all files."""
        wanted = list(keys)
        columns = [pa.array([0] * len(wanted), pa.int32()), wanted, ["asked"] * len(wanted)]
        batch = pa.record_batch(columns, schema=INCOMING)
        answer = LOCATED
        if ordering:
            answer = answer.append(pa.field("ts", pa.int64()))
        chunks = (tuple(range(len(self.files))),)
        lookup = StoredKeyLookup(tuple(self.candidates), settings, answer)
        task = LookUpKeys(self.location, lookup, chunks)
        found = [row for part in task([batch]) for row in part.to_pylist()]
        assert {row["_hoodie_partition_path"] for row in found} <= {"asked"}
        return sorted(
            (row["_hoodie_record_key"], row[LOCATED_FILE], *([row["ts"]] if ordering else []))
            for row in found
        )


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


@pytest.mark.parametrize("settings", [SIMPLE, BLOOM])
def test_every_copy_of_a_key_is_found(settings: LookupSettings, stored: Stored) -> None:
    stored.add(["a", "b", "b", "é😀"])
    stored.add(["b", "x"], ts=7)
    stored.add([])
    assert stored.look_up(["b", "é😀", "new"], settings) == [
        ("b", 0), ("b", 0), ("b", 1), ("é😀", 0),
    ]  # fmt: skip
    assert stored.look_up(["x", "a"], settings, ordering=True) == [("a", 0, 1), ("x", 1, 7)]
    assert stored.look_up(["new"], settings) == []


def lie(path: Path, footer: BaseFileFooter) -> None:
    """Give a file another footer."""
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(footer.to_metadata()), path)


def test_a_bloom_index_believes_the_footer(stored: Stored) -> None:
    """A footer that lies shows which files were not looked into."""
    stored.add(["a", "b", "c"])
    bloom = BloomFilter.create(10, 1e-9, 20)
    bloom.add_keys(pa.array(["a", "b", "c"]))
    empty = BloomFilter.create(10, 1e-9, 20)
    unranged = replace(BLOOM, prunes_by_ranges=False)
    lie(stored.path(0), BaseFileFooter(empty, "a", "c"))
    assert stored.look_up("abc", BLOOM) == []
    assert len(stored.look_up("abc", SIMPLE)) == 3
    lie(stored.path(0), BaseFileFooter(bloom, "x", "z"))
    assert stored.look_up("abc", BLOOM) == []
    assert len(stored.look_up("abc", unranged)) == 3
    assert len(stored.look_up(["a", "y"], BLOOM)) == 1
    for incomplete in (BaseFileFooter(), BaseFileFooter(bloom), BaseFileFooter(None, "a", "c")):
        lie(stored.path(0), incomplete)
        assert len(stored.look_up("abc", BLOOM)) == 3


def test_a_file_without_any_of_the_keys_is_not_read(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the statistics of its key column, whichever index it is; nor a row group without any."""
    stored.add(["a", "c"])
    stored.add(["f", "k"])
    table = pq.read_table(stored.path(1))
    pq.write_table(table, stored.path(1), row_group_size=1)
    read: list[tuple[Any, int]] = []
    of_file = StoredKeyLookup._read

    def reading(self: StoredKeyLookup, file: pq.ParquetFile, group: int) -> pa.RecordBatch:
        read.append((file.metadata.num_row_groups, group))
        return of_file(self, file, group)

    monkeypatch.setattr(StoredKeyLookup, "_read", reading)
    for lookups_sorted_for in (1, 1_000):
        monkeypatch.setattr(wanted_keys, "_LOOKUPS_SORTED_FOR", lookups_sorted_for)
        assert stored.look_up(["k", "d", "zz"]) == [("k", 1)]
        assert stored.look_up(["d", "zz", "A"]) == []
        assert read == [(2, 1)]
        read.clear()


def test_key_ranges_are_compared_in_javas_order(stored: Stored) -> None:
    """Surrogate pairs come before U+E000 there, and after it as UTF-8 bytes."""
    stored.add(["😀", "z"])
    assert stored.look_up(["😀"], BLOOM) == [("😀", 0)]
    assert read_footer(str(stored.path(0))).max_key == "😀"
    stored.add(["😀", "\ue000"])
    assert stored.look_up(["\ue000"], BLOOM) == [("\ue000", 1)]
    assert stored.look_up(["😀"], BLOOM) == [("😀", 0), ("😀", 1)]


def test_some_keys_of_a_file_show_how_keys_are_spelled(stored: Stored) -> None:
    store = stored.location.open()
    stored.add(["id:b", "id:a"])
    stored.add([])
    assert [some_stored_keys(store, file) for file in stored.files] == [("id:a", "id:b"), ()]
    lie(stored.path(0), BaseFileFooter())
    assert some_stored_keys(store, stored.files[0]) == ("id:b",)
    bare = pq.read_table(stored.path(0)).select(["id"])
    pq.write_table(bare, stored.path(0))
    assert some_stored_keys(store, stored.files[0]) == ()


def test_keys_of_files_without_meta_columns_are_computed(stored: Stored) -> None:
    stored.add(["a", "b"], ts=5)
    path = stored.path(0)
    pq.write_table(pq.read_table(path).select(["id", "ts"]), path)
    bare = replace(SIMPLE, key_fields=("id",))
    assert stored.look_up(["a", "n"], bare, ordering=True) == [("a", 0, 5)]
    qualified = replace(SIMPLE, key_fields=("id", "ts"), qualified=True)
    assert stored.look_up(["id:b,ts:5", "b"], qualified) == [("id:b,ts:5", 0)]


def test_an_ordering_column_younger_than_the_file_reads_as_null(stored: Stored) -> None:
    stored.add(["a"])
    path = stored.path(0)
    pq.write_table(pq.read_table(path).drop_columns(["ts"]), path)
    assert stored.look_up(["a"], ordering=True) == [("a", 0, None)]


def test_many_keys_are_looked_up_slab_by_slab(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookup, "_SLAB_ROWS_MAX", 1)
    stored.add(["a", "b"])
    assert stored.look_up(["b", "a", "n"]) == [("a", 0), ("b", 0)]


def test_a_missing_or_broken_file_is_named_on_the_driver(stored: Stored) -> None:
    stored.add(["a", "b"])
    path = stored.path(0)
    whole = path.read_bytes()
    middle = len(whole) // 3
    broken = [whole[:middle], whole[:4] + b"\0" * (len(whole) - 4_000) + whole[-3_996:], b""]
    for body in broken:
        path.write_bytes(body)
        with pytest.raises(CorruptTableError, match="base file cannot be read") as caught:
            as_on_the_driver(stored)
        assert caught.value.path == stored.files[0].path
        assert caught.value.table == stored.location.uri
    path.unlink()
    with pytest.raises(CorruptTableError, match="base file is missing"):
        as_on_the_driver(stored)


def as_on_the_driver(stored: Stored) -> None:
    """Look up, with a failure passed on as Spark would."""
    with raised_errors():
        try:
            stored.look_up(["a"])
        except RuntimeError as error:
            raise PythonException(f"Traceback ...\nRuntimeError: {error}\n more") from error


def test_errors_cross_from_task_to_driver_as_they_are() -> None:
    with pytest.raises(InvalidDataError, match="two") as caught, raised_errors():
        try:
            with carried_errors():
                raise InvalidDataError("two\nlines ü", path="p", value='{"a": 1}')
        except RuntimeError as error:
            raise PythonException(f"Traceback\n  RuntimeError: {error}\n\n end") from error
    assert (caught.value.message, caught.value.path) == ("two\nlines ü", "p")
    assert (caught.value.table, caught.value.value) == (None, '{"a": 1}')
    with pytest.raises(PythonException, match="other"), raised_errors():
        raise PythonException("other")
    with pytest.raises(ValueError, match="plain"), carried_errors():
        raise ValueError("plain")


@pytest.mark.spark
@pytest.mark.parametrize("by_key_only", [False, True])
def test_keys_are_found_over_many_files(
    by_key_only: bool, spark: SparkSession, stored: Stored
) -> None:
    keys = [f"k{number}" for number in range(60)]
    for number in range(20):
        stored.add(keys[number * 3 : number * 3 + 3], partition=f"p{number % 3}")
    homes = {key: number // 3 for number, key in enumerate(keys)}
    asked = [(key, f"p{number % 3}") for number, key in enumerate(keys[10:])]
    asked += [("new", "p0"), ("k0", "nowhere")]
    frame = spark.createDataFrame(
        pa.table([[key for key, _ in asked], [path for _, path in asked]], INCOMING.names[1:])
    )
    ordering = T.StructType([T.StructField("ts", T.LongType())])
    located = locate_keys(
        spark,
        stored.location,
        frame,
        stored.candidates,
        SIMPLE,
        by_key_only=by_key_only,
        ordering=ordering,
    )
    found = {tuple(row) for row in located.collect()}
    expected = {
        (key, path, homes[key], False, 1)
        for key, path in asked
        if key in homes and (by_key_only or path == f"p{homes[key] % 3}")
    }
    assert found == expected
