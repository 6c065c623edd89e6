"""A record index after writes and services: each key has one place, and it is there."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import KeyPlace
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import FILES, RECORD_INDEX, TableType
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.kept_statistics import begin_record_index, places_of_keys
from tideline.testing.small_table import SmallTable, memory_place
from tideline.testing.table_audit import stale_listing

KINDS = {
    "cow": (TableType.COPY_ON_WRITE, ()),
    "mor": (TableType.MERGE_ON_READ, ()),
    "cow-by-event-time": (TableType.COPY_ON_WRITE, ("v",)),
    "mor-by-event-time": (TableType.MERGE_ON_READ, ("v",)),
}
SERVICES = ("cleaning", "clustering", "compaction", "log_compaction")
OFTEN = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.blocks.threshold": "2",
}
MOVES = {"hoodie.record.index.update.partition.path": "true"}


def rows(keys: Iterable[int], v: int, shift: int = 0) -> pa.Table:
    wanted = list(keys)
    return pa.table(
        {
            "id": [f"k{key:03}" for key in wanted],
            "part": [f"p{(key + shift) % 3}" for key in wanted],
            "v": [v] * len(wanted),
        }
    )


@pytest.fixture(params=[*KINDS])
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = with_record_index(*KINDS[request.param])
    yield table
    table.forget()


def with_record_index(
    table_type: TableType, ordering: tuple[str, ...] = (), version: int = 9
) -> SmallTable:
    location, clock = memory_place()
    small = SmallTable.create(
        location,
        clock,
        table_type=table_type,
        ordering=ordering,
        table_version=version,
        properties={"hoodie.metadata.compact.max.delta.commits": "4"},
    )
    table = opened(small)
    bootstrap_metadata_table(table, table.timeline())
    begin_record_index(table)
    return small


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def keys_by_place(table: HoodieTable) -> dict[str, FileGroupId]:
    """Where each live key is, by the files."""
    timeline = table.timeline()
    schema = table.schemas.newest(timeline)
    assert schema is not None
    reading = SliceContext.of(table, timeline, schema)
    found: dict[str, FileGroupId] = {}
    for piece in table.files.view_of(table.files.listing(), timeline).all_latest_slices():
        for batch in read_file_slice(table.store, piece, reading, ["_hoodie_record_key"]):
            for key in batch.column(0).to_pylist():
                assert key not in found, key
                found[key] = piece.group
    return found


def assert_right(small: SmallTable) -> None:
    table = opened(small)
    assert table.config.metadata_partitions == (FILES, RECORD_INDEX)
    said = {key: place.group for key, place in places_of_keys(table).items()}
    assert said == keys_by_place(table)


@pytest.mark.parametrize("seed", range(6))
def test_each_key_has_its_place_after_random_work(small: SmallTable, seed: int) -> None:
    chance = random.Random(seed)
    small.lake().write(rows(range(12), 20), "insert")
    for v in range(21, 40):
        keys = chance.sample(range(20), chance.randrange(1, 6))
        work = chance.choice(("upsert", "upsert", "late", "move", "delete", "over", *SERVICES))
        lake = small.lake()
        if work in SERVICES:
            lake.run(work, options=OFTEN)
        elif work == "over":
            # Keys of other partitions would be there twice: an overwrite looks no key up.
            there = lake.scan(columns=["id", "part"]).read_all().to_pylist()
            elsewhere = {row["id"] for row in there if row["part"] != "p1"}
            new = [key for key in range(1, 20, 3) if f"k{key:03}" not in elsewhere]
            lake.write(rows(new, v), "insert_overwrite")
        elif work == "move":
            lake.write(rows(keys, v, shift=v), "upsert", options=MOVES)
        elif work == "late":
            lake.write(rows(keys, chance.randrange(20)), "upsert")
        else:
            lake.write(rows(keys, v), work)
        assert_right(small)
    small.lake().delete_partitions(["p1"])
    assert_right(small)
    assert stale_listing(opened(small)) == []


@pytest.mark.parametrize("writes", range(1, 40, 3))
def test_what_a_death_leaves_is_taken_back(small: SmallTable, writes: int) -> None:
    small.lake().write(rows(range(6), 0), "insert")
    dying = FaultyStore(small.store(), FaultPlan(crash_after_write=writes))
    with contextlib.suppress(SimulatedCrash):
        small.lake(dying).write(rows(range(9), 1), "upsert")
    small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
    small.lake().write(rows([3], 2), "upsert")
    assert_right(small)
    assert stale_listing(opened(small)) == []


def test_ids_of_file_groups_are_stored_as_numbers_or_as_text() -> None:
    uuid = "768e683a-88c2-4d9a-996f-272326887e97"
    for file_id in (f"{uuid}-0", f"{uuid}-12", uuid, f"{uuid}-007", f"{uuid.upper()}-0", "bucket"):
        place = KeyPlace(FileGroupId("p1", file_id), 1795645886385)
        assert KeyPlace.parse(MetadataRecord("k", datum=place.stored())) == place
    # A record that Hudi 1.2 wrote.
    place = KeyPlace(FileGroupId("p1", f"{uuid}-0"), 1795645886385)
    assert place.stored() == bytes.fromhex(
        "000000000000 0a 000000 02 02047031 02b4b6928cd18eb48eed01 02d185bc979bb7ec90cd01"
        "0200 0200 02e2beaecdc268 00 00 00"
    )
