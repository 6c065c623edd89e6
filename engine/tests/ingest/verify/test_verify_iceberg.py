"""Iceberg tables compared with the sources they are made of: what differs is named, and nothing
else."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tideline.iceberg_lake_table import IcebergLakeTable, create_iceberg
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.sources import iceberg_checkpoints
from tideline.ingest.sources.kafka.declared import UNAVAILABLE
from tideline.ingest.verify.iceberg_rows import key_texts
from tideline.ingest.verify.verification import Kind, Verification
from tideline.testing.landing_feed import SCHEMA, LandingFeed
from tideline.testing.planted_differences import named, plant, verified, verified_together
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_feed import ICEBERG_MODES, columns


def feed_of(folder: Path, kind: str = "copy-on-write", **given: Any) -> LandingFeed:
    return LandingFeed.of(folder, **given).into(kind)


def compared(*feeds: LandingFeed) -> Verification:
    return verified_together(*(feed.declared for feed in feeds))


def lake(feed: LandingFeed) -> IcebergLakeTable:
    found = feed.lake()
    assert isinstance(found, IcebergLakeTable)
    return found


def counts(found: Verification) -> tuple[int, int, int]:
    assert found.found.is_equal, found.found
    return found.found.equal, found.found.unknown, found.found.undecided


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_row_of_a_file_that_is_gone_is_open_and_one_of_another_writer_is_not(
    version: int, tmp_path: Path
) -> None:
    feed = feed_of(tmp_path, files_max=1)
    create_iceberg(feed.target.location.uri, arrow_schema(SCHEMA), key="id", format_version=version)
    first = feed.land(1, [(n, 1, "a") for n in range(6)])
    feed.land(2, [(n, 2, "b") for n in range(4, 9)])
    feed.drain()
    assert lake(feed).version == version
    first.unlink()
    partly = compared(feed)
    assert counts(partly) == (5, 4, 0)
    assert partly.instant == str(lake(feed).metadata.current_snapshot_id)
    table = lake(feed)
    table.append([{"id": 99, "ts": 1, "v": "added"}])
    table.upsert([{"id": 5, "ts": 2, "v": "changed"}])
    table.delete("id = 6")
    # Rows say whose they are since version 3.
    extra = {(Kind.EXTRA, "99")} if version == 3 else set()
    wanted = {(Kind.DIFFERENT, "5"), (Kind.MISSING, "6"), *extra}
    assert named(compared(feed)) == wanted
    # Rewritten together with others they still do.
    lake(feed).rewrite(options={"rewrite-all": "true"})
    assert named(compared(feed)) == wanted


def test_rows_without_a_key_are_a_bag_named_by_their_values(tmp_path: Path) -> None:
    feed = replace(feed_of(tmp_path, operation="insert"), key=())
    feed.land(1, [(1, 1, "a"), (1, 1, "a"), (2, 1, None)])
    feed.drain()
    assert counts(compared(feed)) == (3, 0, 0)
    lake(feed).append([{"id": 1, "ts": 1, "v": "a"}])
    lake(feed).delete("id = 2")
    assert named(compared(feed)) == {
        (Kind.EXTRA, "id:1,ts:1,v:a"),
        (Kind.MISSING, "id:2,ts:1,v:null"),
    }


@pytest.mark.parametrize("seed", range(3))
def test_random_ingests_are_equal_to_their_table(tmp_path: Path, seed: int) -> None:
    """Upserts and deletes of two ingests, services between them, files that go."""
    chance = random.Random(seed)
    kind = chance.choice(ICEBERG_MODES)
    orders = feed_of(tmp_path, kind, name="orders", files_max=chance.randint(1, 3))
    gone = feed_of(tmp_path, kind, name="gone", operation="delete")
    gone = replace(gone, landed=columns(id="long"))
    kept: list[Path] = []
    for number in range(1, 9):
        keys = chance.sample(range(20), 6)
        if chance.random() < 0.3 and number > 1:
            gone.land(number, [(key,) for key in keys])
            gone.drain()
        else:
            kept.append(orders.land(number, [(key, number, f"v{number}") for key in keys]))
            orders.drain()
        if chance.random() < 0.3:
            lake(orders).run("rewrite_data_files")
        clean = compared(orders, gone)
        assert (clean.found.is_equal, clean.found.unknown) == (True, 0), clean.found
        assert clean.found.equal + clean.found.undecided >= clean.rows
    faults = set()
    for row in orders.rows("id", "ts", "v")[:2]:
        lake(orders).upsert([{"id": row[0], "ts": row[1], "v": "changed"}])
        faults.add((Kind.DIFFERENT, str(row[0])))
    assert named(compared(orders, gone)) == faults
    kept[0].unlink()
    assert {kind for kind, _ in named(compared(orders, gone))} <= {Kind.DIFFERENT}


def test_what_the_table_has_become_is_looked_at_by_field(tmp_path: Path) -> None:
    feed = replace(feed_of(tmp_path), partition_by=("bucket(2, id)",))
    feed.land(1, [(n, 1, "a") for n in range(9)])
    feed.drain()
    lake(feed).alter().add_partition_field("ts").add_column("note", "string").commit()
    lake(feed).alter().upgrade(3).commit()
    feed.land(2, [(n, 2, UNAVAILABLE) for n in range(4, 12)])
    feed.drain()
    # A value that was not available is that of the row before.
    assert counts(compared(feed)) == (12, 0, 0)
    lake(feed).upsert([{"id": 4, "ts": 2, "v": "changed", "note": "more"}])
    (row,) = compared(feed).found.first
    assert (row.key, row.partition) == ("4", "")
    assert row.columns == {"v": ("a", "changed"), "note": (None, "more")}


def test_snapshots_that_are_gone_leave_files_without_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = feed_of(tmp_path, files_max=1)
    for number in range(1, 5):
        feed.land(number, [(1, number, f"v{number}"), (number + 1, 1, "a")])
    feed.drain()
    assert counts(compared(feed)) == (5, 0, 0)
    # Of large checkpoints the newest alone is kept.
    monkeypatch.setattr(iceberg_checkpoints, "SUMMARY_CHARACTERS_MAX", 100)
    feed.land(5, [(6, 1, "a")])
    feed.drain()
    feed.land(6, [(7, 1, "a")])
    feed.drain()
    large = compared(feed)
    assert large.found.is_equal
    assert [gone.partition(" before ")[0] for gone in large.gone] == ["what was taken in"]
    lake(feed).expire(older_than=timedelta(0), retain_last=1)
    assert compared(feed).found.is_equal
    lake(feed).delete("id = 7")
    assert named(compared(feed)) == {(Kind.MISSING, "7")}


def test_keys_within_structs_are_compared_and_named(tmp_path: Path) -> None:
    landed = columns(who="struct<id:long,name:string>", ts="long", v="string")
    feed = replace(feed_of(tmp_path), key=(), schema=landed, landed=landed)
    parts = pa.struct([pa.field("id", pa.int64(), False), ("name", pa.string())])
    schema = pa.schema([pa.field("who", parts, False), ("ts", pa.int64()), ("v", pa.string())])
    made = create_iceberg(feed.target.location.uri, schema)
    made.alter().set_identifier_fields("who.id").commit()
    for number, (first, name) in enumerate(((0, "x"), (3, "y")), 1):
        feed.land(number, [({"id": n, "name": name}, 1, "a") for n in range(first, first + 5)])
        feed.drain()
    assert counts(compared(feed)) == (8, 0, 0)
    lake(feed).upsert([{"who": {"id": 3, "name": "z"}, "ts": 1, "v": "a"}])
    lake(feed).delete("v = 'a' and who.id = 7")
    assert named(compared(feed)) == {(Kind.DIFFERENT, "3"), (Kind.MISSING, "7")}


def test_keys_of_bytes_are_named() -> None:
    given = [b"\xff\x00", b"", b"a"]
    for kind in (pa.binary(), pa.binary(2)):
        values = [value if kind == pa.binary() else value.ljust(2, b"\0") for value in given]
        key = {"key": pa.array([b"no", *values], kind).slice(1)}
        assert key_texts(key, 3).to_pylist() == [value.hex() for value in values]
    assert len(np.unique(key_texts(key, 3))) == 3


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ICEBERG_MODES)
def test_a_table_of_postgres_is_compared(
    mode: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, v text, size float8, at timestamptz)",
        "insert into orders select g, 'v' || g, g / 3.0, now() from generate_series(1, 30) g",
    )
    feed = PostgresFeed.of(tmp_path, postgres).into(mode)
    feed.drain()
    postgres.execute("delete from orders where id = 22", "update orders set v = null where id = 9")
    feed.drain()
    postgres.execute("insert into orders values (77, 'later')")

    def check() -> Verification:
        return verified(feed.target, feed.source)

    assert counts(check()) == (29, 0, 0)
    table = feed.lake()
    rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert named(check()) == set()
    planted = plant(table, rows[:8], {**rows[8], "id": 22})
    assert named(check()) == planted


def test_keys_of_several_columns_have_texts_of_their_own() -> None:
    keys = [("1,b:2", "3"), ("1", "2,b:3"), ("1\\", "3"), ("1\\,b:3", ""), ("1", "3"), ("é,", "")]
    columns = (pa.array(column) for column in zip(*keys, strict=True))
    found = key_texts(dict(zip("ab", columns, strict=True)), len(keys)).to_pylist()
    assert len(set(found)) == len(keys)
    assert found[4] == "a:1,b:3"
