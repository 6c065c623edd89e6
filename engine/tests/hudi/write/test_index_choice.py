"""Bucket index tables of Hudi, which no property names: recognised, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tideline.cli.show import describe_table
from tideline.errors import ConfigError, ConflictError, TidelineError, UnsupportedTableError
from tideline.hudi.index.bucket_layout import BucketEngine, KnownFrom
from tideline.hudi.index.hash_ring import HashRing, RingHash
from tideline.hudi.index.hashing_metadata import load_ring
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.placement.hashed_fields import require_hashed_fields
from tideline.hudi.table.table_config import BUCKET_COUNT, BUCKET_HASH_FIELD, INDEX_TYPE, TableType
from tideline.lake_table import LakeTable
from tideline.storage.object_store import ObjectStore
from tideline.testing.condition_in_arrow import condition_of, conditions_in_arrow
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

COUNT = "hoodie.bucket.index.num.buckets"
EXPRESSIONS = "hoodie.bucket.index.partition.expressions"
RINGS = ".hoodie/.bucket_index/consistent_hashing_metadata"
CONFIGS = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
FORGOTTEN = dict.fromkeys((INDEX_TYPE, BUCKET_COUNT, BUCKET_HASH_FIELD, EXPRESSIONS))


def as_of_hudi(
    keys: int = 200, table_type: TableType = TableType.COPY_ON_WRITE, **properties: str
) -> SmallTable:
    """A table with buckets and without the properties by which we know our own."""
    index = {"hoodie.index.type": "BUCKET", COUNT: "4", **properties}
    table = SmallTable.in_memory(index, table_type=table_type)
    table.write("upsert", batch(range(keys), 1))
    table.lake().hoodie_table.properties.update(FORGOTTEN)
    return table


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises(TidelineError) as caught:
        act()
    assert isinstance(caught.value, ConfigError | UnsupportedTableError)
    return str(caught.value)


@pytest.mark.parametrize("table_type", list(TableType))
def test_rows_go_where_the_buckets_are(table_type: TableType) -> None:
    table = as_of_hudi(table_type=table_type)
    layout = table.lake().writer.index.layout()
    assert layout is not None
    assert (layout.engine, layout.known_from) == (BucketEngine.SIMPLE, KnownFrom.FILE_IDS)
    shown = describe_table(table.lake().hoodie_table)
    assert (shown["index"], shown["buckets"]) == ("BUCKET", "SIMPLE, known by its file ids")
    index = table.lake().writer.config_for_rows(None).index
    assert (index.type, index.num_buckets) == (IndexType.BUCKET, 4)
    table.write("upsert", batch(range(100, 300), 2))
    assert table.merged_values() == [
        (f"k{number:03d}", 1 if number < 100 else 2) for number in range(300)
    ]
    hoodie = table.lake().hoodie_table
    view = hoodie.files.read_view(hoodie.timeline())
    assert [len(view.latest_slices(name)) for name in view.partitions] == [4, 4]


def test_properties_answer_without_a_look_and_other_tables_cost_little() -> None:
    ours = SmallTable.in_memory({"hoodie.index.type": "BUCKET", COUNT: "4"})
    ours.write("upsert", batch(range(20), 1))
    assert requests_of(ours, lambda lake: lake.writer.config_for_rows(None)) == []
    plain = SmallTable.in_memory()
    assert plain.lake().writer.index.layout() is None
    plain.write("upsert", batch(range(20), 1))
    asked = requests_of(plain, lambda lake: lake.writer.config_for_rows(None))
    assert len({*asked} - {"list_directory .hoodie"}) == 2, asked
    # The schema is read from the commit that was looked at.
    both = requests_of(
        plain,
        lambda lake: (
            lake.writer.config_for_rows(None),
            lake.hoodie_table.schemas.newest_json(lake.timeline()),
        ),
    )
    assert sum(path.endswith(".commit") for path in both) == 1


def test_a_random_id_of_digits_is_no_bucket() -> None:
    table = SmallTable.in_memory()
    table.write("upsert", batch(range(20), 1))
    store = table.store()
    for info in list(store.list()):
        if info.path.endswith((".parquet", "commit")):
            renamed = info.path
            body = store.get(info.path)
            for base_file in table.lake().hoodie_table.files.base_files():
                random = base_file.file_id.encode()
                body = body.replace(random, b"48213377" + random[8:])
                renamed = renamed.replace(base_file.file_id, "48213377" + base_file.file_id[8:])
            store.delete(info.path)
            store.put(renamed, body)
    assert table.lake().writer.index.layout() is None


def test_another_index_or_number_is_refused() -> None:
    table = as_of_hudi()
    for option, value, words in (
        ("hoodie.index.type", "SIMPLE", "stored twice"),
        ("hoodie.index.type", "GLOBAL_BLOOM", "stored twice"),
        ("hoodie.index.bucket.engine", "CONSISTENT_HASHING", "only SIMPLE"),
        (COUNT, "8", "is not where 8 buckets would place it"),
        (COUNT, "3", "declared to have 3 buckets here, but there is bucket 3"),
        (EXPRESSIONS, "p1,8", "is not where 8 buckets would place it"),
    ):
        settings = {"hoodie.index.type": "BUCKET", option: value}
        assert words in refused(partial(table.write, "upsert", batch([1], 2), options=settings))
    assert len(table.rows()) == 200


def test_too_few_keys_ask_for_a_declaration() -> None:
    table = as_of_hudi(2)
    assert f"declare {COUNT}" in refused(lambda: table.write("upsert", batch([7], 2)))
    table.write("upsert", batch([7], 2), options={COUNT: "4"})
    assert len(table.rows()) == 3


@pytest.mark.parametrize("table_type", list(TableType))
def test_stored_rows_are_deleted_without_a_declaration(table_type: TableType) -> None:
    """They are where they are, however many buckets there may be."""
    table = as_of_hudi(4, table_type)
    assert f"declare {COUNT}" in refused(lambda: table.write("delete", batch([1], 2)))
    with conditions_in_arrow():
        erased = table.lake().erase(condition_of(["k001"]), prove=True)
    assert erased.matching == 1 and erased.is_complete
    assert sorted(row["id"] for row in table.rows()) == ["k000", "k002", "k003"]
    table.lake().hoodie_table.properties.update({"hoodie.index.type": "BLOOM"})
    with conditions_in_arrow():
        message = refused(lambda: table.lake().erase(condition_of(["k002"])))
    assert "stored twice" in message


def test_more_partitions_are_asked_where_those_written_last_hold_few_keys() -> None:
    table = SmallTable.in_memory({"hoodie.index.type": "BUCKET", COUNT: "4"})
    table.write("upsert", batch(range(20), 1, partitions=20))
    table.lake().hoodie_table.properties.update(FORGOTTEN)
    assert table.lake().writer.config_for_rows(None).index.num_buckets == 4


def test_a_table_that_settings_call_otherwise_is_refused() -> None:
    table = as_of_hudi()
    table.lake().hoodie_table.properties.update({"hoodie.index.type": "BLOOM"})
    assert "stored twice" in refused(lambda: table.write("upsert", batch([1], 2)))


def test_file_groups_of_no_bucket_among_others() -> None:
    table = as_of_hudi()
    table.lake().hoodie_table.properties.update({INDEX_TYPE: "SIMPLE"})
    table.write(
        "upsert", batch(range(200, 210), 1), options={"hoodie.parquet.small.file.limit": "0"}
    )
    table.write("upsert", batch(range(100), 2))
    table.lake().hoodie_table.properties.update(FORGOTTEN)
    layout = table.lake().writer.index.layout()
    assert layout is not None and layout.mixed
    message = refused(lambda: table.write("upsert", batch([1], 3)))
    assert "Hudi cannot write it" in message and str(layout.mixed[0]) in message
    table.write("upsert", batch([1], 3), options={"hoodie.index.type": "SIMPLE"})
    table.write("delete_partition", batch([1], 3))
    assert {row["part"] for row in table.rows()} == {"p0"}


def test_buckets_are_known_when_the_partitions_written_last_are_gone() -> None:
    table = as_of_hudi()
    part = batch([0], 2)
    table.write("delete_partition", batch([1], 2))
    table.write("upsert", batch(range(0, 200, 2), 2))
    table.write("delete_partition", part)
    table.write("upsert", batch([1], 2), options={COUNT: "4"})
    assert table.lake().writer.index.layout() is not None
    table.write("delete_partition", batch([1], 2))
    layout = table.lake().writer.index.layout()
    assert layout is not None and not table.rows()
    assert f"declare {COUNT}" in refused(lambda: table.write("upsert", part))


def test_rules_of_a_hashing_config_are_honoured() -> None:
    rules: dict[str, Any] = {EXPRESSIONS: "p1,8"}
    table = as_of_hudi(300, **rules)
    message = refused(lambda: table.write("upsert", batch([1], 2)))
    assert "p0: 4; p1: 8" in message and EXPRESSIONS in message
    put_hashing_config(table.store(), "00000000000000", ".*,3")
    put_hashing_config(table.store(), "20240101000000000", "p1,8")
    layout = table.lake().writer.index.layout()
    assert str(layout) == f"SIMPLE, 4 buckets, p1,8, known by {CONFIGS}"
    table.write("upsert", batch(range(100, 400), 2))
    assert len(table.rows()) == 400
    hoodie = table.lake().hoodie_table
    view = hoodie.files.read_view(hoodie.timeline())
    assert [len(view.latest_slices(name)) for name in view.partitions] == [4, 8]
    for option in ({COUNT: "5"}, {EXPRESSIONS: "p1,16"}):
        assert "hashing config fixes" in refused(
            partial(table.lake().writer.config_for_rows, option)
        )


def test_a_partition_with_more_buckets_than_known_is_not_written() -> None:
    rules = {EXPRESSIONS: "p2,8"}
    table = SmallTable.in_memory({"hoodie.index.type": "BUCKET", COUNT: "4", **rules})
    rows = batch(range(300), 1, partitions=3)
    is_last = pc.equal(rows["part"], "p2")
    table.write("upsert", rows.filter(is_last))
    table.write("upsert", rows.filter(pc.invert(is_last)))
    table.lake().hoodie_table.properties.update(FORGOTTEN)
    # The newest commit shows two partitions of four buckets.
    assert table.lake().writer.config_for_rows(None).index.num_buckets == 4
    message = refused(lambda: table.write("upsert", rows))
    assert "the partition has bucket 7" in message and "path=p2" in message
    table.write("upsert", rows, options=rules)
    assert len(table.rows()) == 300


def with_rings(keys: int = 40) -> SmallTable:
    """A table with the rings that Hudi gives two partitions, and rows by them."""
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    for partition in ("p0", "p1"):
        ring = HashRing.first(partition, 4)
        table.store().put(f"{RINGS}/{partition}/00000000000000.hashing_meta", ring.encode())
    # An empty commit: without any, a table has no index yet.
    table.write("insert", batch([], 0))
    table.write("upsert", batch(range(keys), 1))
    return table


def test_consistent_hashing_places_rows_by_its_rings() -> None:
    table = with_rings()
    assert str(table.lake().writer.index.layout()) == f"CONSISTENT_HASHING, known by {RINGS}"
    table.write("upsert", batch(range(20, 60), 2), options={"hoodie.index.type": "BUCKET"})
    table.write("delete", batch([3, 50, 99], 0))
    expected = {f"k{n:03d}": 1 if n < 20 else 2 for n in range(60) if n not in (3, 50)}
    assert table.merged_values() == sorted(expected.items())
    hoodie = table.lake().hoodie_table
    view = hoodie.files.read_view(hoodie.timeline())
    for partition in view.partitions:
        prefixes = HashRing.first(partition, 4).prefixes
        ids = {file_slice.file_id for file_slice in view.latest_slices(partition)}
        assert ids == {f"{prefix}-0" for prefix in prefixes}


def test_a_new_partition_begins_with_the_ring_that_any_writer_gives_it() -> None:
    table = with_rings()
    rows = batch([2], 1, partitions=3)
    table.write("upsert", rows)
    stored = table.store().get(f"{RINGS}/p2/00000000000000.hashing_meta")
    assert HashRing.parse(stored, path="") == HashRing.first("p2", 4)
    rows = rows.set_column(1, "part", pa.array(["p9"]))
    table.write("upsert", rows, options={COUNT: "2"})
    assert table.store().head(f"{RINGS}/p9/00000000000000.hashing_meta") is not None
    assert len(table.rows()) == 42


def test_stored_keys_show_which_fields_of_a_longer_key_are_hashed() -> None:
    table = with_rings()
    table.write("upsert", batch(range(40), 2))
    hoodie, timeline = table.lake().hoodie_table, table.lake().timeline()
    right = RingHash({name: HashRing.first(name, 4) for name in ("p0", "p1", "p2")})
    wrong = RingHash({name: HashRing.first(name, 3) for name in ("p0", "p1", "p2")})

    def ask(hashed: RingHash, *partitions: str) -> None:
        view = hoodie.files.view(timeline, partitions)
        require_hashed_fields(hoodie, timeline, view, hashed)

    # A new partition is checked with the keys of others.
    for partitions in (("p0", "p1"), ("p2",)):
        ask(right, *partitions)
    assert f"declare {BUCKET_HASH_FIELD}" in refused(lambda: ask(wrong, "p0", "p1"))
    # As Hudi leaves buckets, which it begins with logs.
    for base_file in hoodie.files.base_files():
        table.store().delete(base_file.path)
    ask(right, "p0")
    assert "do not show" in refused(lambda: ask(wrong, "p0"))


def test_without_any_stored_key_hashed_fields_have_to_be_declared() -> None:
    table = with_rings(0)
    hoodie, timeline = table.lake().hoodie_table, table.lake().timeline()
    rings = {"p0": HashRing.first("p0", 4)}
    view = hoodie.files.view(timeline, ("p0",))
    require_hashed_fields(hoodie, timeline, view, RingHash(rings, ("id",)))
    assert "do not show" in refused(
        lambda: require_hashed_fields(hoodie, timeline, view, RingHash(rings))
    )


def test_what_breaks_rings_is_refused() -> None:
    table = with_rings()
    assert "stored twice" in refused(
        lambda: table.write("upsert", batch([1], 2), options={"hoodie.index.type": "SIMPLE"})
    )
    assert "CONSISTENT_HASHING buckets" in refused(
        lambda: table.write(
            "upsert", batch([1], 2), options={"hoodie.index.bucket.engine": "SIMPLE"}
        )
    )
    for operation in ("insert_overwrite", "insert_overwrite_table", "delete_partition"):
        message = refused(partial(table.write, operation, batch([1], 2)))
        assert "CONSISTENT_HASHING" in message
    outcome = table.lake().run("clustering", options={"hoodie.clustering.inline.max.commits": "1"})
    assert outcome.not_due is not None and "resizing" in outcome.not_due.reason
    assert len(table.rows()) == 40


def test_a_pending_resize_is_a_conflict_regardless_of_settings() -> None:
    table = with_rings()
    table.lake().hoodie_table.properties.update({INDEX_TYPE: "SIMPLE"})
    table.lake().schedule("clustering", options={"hoodie.clustering.inline.max.commits": "1"})
    table.lake().hoodie_table.properties.update(FORGOTTEN)
    allows = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}
    for options in ({}, allows):
        with pytest.raises(ConflictError, match="resize"):
            table.write("upsert", batch([1], 2), options=options)
    assert "CONSISTENT_HASHING" in refused(lambda: table.lake().run("clustering"))


def test_a_ring_counts_once_its_resize_completed() -> None:
    table = with_rings()
    ring = HashRing.first("p0", 4)
    split = replace(
        ring,
        values=(2**28, *ring.values),
        prefixes=("11111111-1111-4111-8111-111111111111", *ring.prefixes),
    )
    folder = f"{RINGS}/p0"
    table.store().put(f"{folder}/20240101000000000.hashing_meta", split.encode())

    def seen() -> HashRing | None:
        hoodie = table.lake().hoodie_table
        timeline = hoodie.timeline()
        empty = hoodie.files.read_view(timeline, ())
        return load_ring(hoodie.store, "p0", timeline, empty)

    assert seen() == ring
    table.store().put(f"{folder}/20240101000000000.commit", b"")
    assert seen() == split


@pytest.mark.parametrize("expressions", ["(?<year>2024),8", None])
def test_rules_that_are_not_understood_stop_writes_alone(expressions: str | None) -> None:
    table = as_of_hudi()
    put_hashing_config(table.store(), "00000000000000", expressions or "")
    if expressions is None:
        table.store().put(f"{CONFIGS}/00000000000000.hashing_config", b"not JSON")
    assert "00000000000000.hashing_config" in refused(lambda: table.write("upsert", batch([1], 2)))
    outcome = table.lake().run("clustering", options={"hoodie.clustering.inline.max.commits": "1"})
    assert outcome.not_due is not None and "bucket index" in outcome.not_due.reason
    assert table.lake().run("cleaning").not_due is not None
    assert table.lake().recover() == ()


def test_a_plan_of_hudi_to_resize_buckets_is_not_run() -> None:
    table = as_of_hudi()
    with_plan = table.lake()
    with_plan.hoodie_table.properties.update({INDEX_TYPE: "SIMPLE"})
    assert table.lake().schedule(
        "clustering", options={"hoodie.clustering.inline.max.commits": "1"}
    )
    with_plan.hoodie_table.properties.update(FORGOTTEN)
    assert "bucket index" in refused(lambda: table.lake().run("clustering"))


def put_hashing_config(store: ObjectStore, instant: str, expressions: str) -> None:
    """As Hudi's PartitionBucketIndexHashingConfig writes it."""
    content = {
        "expressions": expressions,
        "defaultBucketNumber": 4,
        "rule": "regex",
        "version": 1,
        "instant": instant,
    }
    store.put(f"{CONFIGS}/{instant}.hashing_config", json.dumps(content).encode())


def requests_of(table: SmallTable, act: Callable[[LakeTable], Any]) -> list[str]:
    """The paths that are read or listed by it."""
    store = _Recorded(table.store())
    lake = LakeTable(open_fresh(table.location, store, table.clock))
    store.asked.clear()
    act(lake)
    return store.asked


class _Recorded:
    """A store that notes what it is asked for."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or name == "local_path":
            return found

        def asked(*arguments: Any, **named: Any) -> Any:
            self.asked.append(f"{name} {arguments[0] if arguments else ''}")
            return found(*arguments, **named)

        return asked
