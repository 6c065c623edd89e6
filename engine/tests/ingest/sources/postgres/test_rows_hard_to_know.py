"""Keys and values of Postgres that are seldom met: of extensions, large, deferrable, nested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.postgres.shared_slot import DeclaredSlot
from tideline.ingest.sources.postgres.slot_tables import look_at_slot
from tideline.ingest.sources.source import Lost
from tideline.testing.planted_differences import verified
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.stream_feed import columns

pytestmark = pytest.mark.postgres


def feed(folder: Path, database: PostgresDatabase, *key: str, **declared: Any) -> PostgresFeed:
    found = PostgresFeed.of(folder, database, "t", **declared)
    found.key = key or ("id",)
    return found


def require_same(found: PostgresFeed, database: PostgresDatabase, names: str) -> None:
    """The table has the source's rows, and what compares them says so."""
    assert found.drain() is None
    rows = database.execute(f"select {names} from t")
    stored = found.rows(*(name.split("::")[0] for name in names.split(", ")))
    assert stored == sorted(rows, key=lambda row: (row[0], str(row[1:])))
    differences = verified(found.target, found.source).found
    assert (differences.is_equal, differences.equal) == (True, len(rows)), differences


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("citext", ["b", "A", "c", "D", "e"]),
        ("ltree", ["b", "A.x", "A", "c.d.e", "D"]),
        ("of_citext", ["b", "A", "c", "D", "e"]),
    ],
)
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "beside another"])
def test_keys_of_extensions_are_compared_by_their_own_operators(
    kind: str, values: list[str], is_alone: bool, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create extension citext",
        "create extension ltree",
        "create domain of_citext as public.citext",
        f"create table t (id {kind}, n int, v text, primary key (id{'' if is_alone else ', n'}))",
        "alter table t alter v set storage external",
    )
    for value in values:
        postgres.execute(f"insert into t values ('{value}', 1, repeat('v', 9000))")
        if not is_alone:
            postgres.execute(f"insert into t values ('{value}', 2, repeat('w', 9000))")
    found = feed(tmp_path, postgres, "id", *(() if is_alone else ("n",)), changes_max=2)
    while isinstance(operation := found.plan(), Operation):
        result = found.execute(operation)
        assert result.exit_code == 0, result.message
        # As many as one commit is to have: the order of the copy is that of the server's index.
        assert result.rows_inserted <= 2
    found.source = feed(tmp_path, postgres).source
    # Large values that did not change are those of the rows as they are now.
    postgres.execute("update t set n = n + 10 where id = 'A'", "delete from t where id = 'c'")
    require_same(found, postgres, "id, n, v")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_key_that_is_stored_apart_and_did_not_change_is_the_rows_key(
    is_full: bool, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    digits = "(select string_agg(md5((g * 1000 + h)::text), '') from generate_series(1, 70) h)"
    postgres.execute(
        "create table t (id text primary key, v text, n int)",
        "alter table t alter id set storage external",
        "alter table t alter v set storage external",
        f"insert into t select g || {digits}, repeat('v', 3000), 0 from generate_series(1, 4) g",
    )
    if is_full:
        postgres.execute("alter table t replica identity full")
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute(
        "update t set n = 1 where id like '1%'",
        "update t set n = 2 where id like '1%'",
        "update t set v = 'short' where id like '2%'",
        "update t set n = 3 where id like '2%'",
        "update t set id = 'short' where id like '3%'",
        "update t set n = 4 where id like '4%'",
        "delete from t where id like '4%'",
    )
    require_same(found, postgres, "id, v, n")


def test_a_large_composite_value_that_has_a_null_is_kept(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create type pair as (a text, b text)",
        "create table t (id int primary key, v pair, n int)",
        "alter table t alter v set storage external",
        "insert into t select g, row(repeat('x', 5000), null)::pair, 0 from generate_series(1,2) g",
        "insert into t values (3, null, 0), (4, row(null, null)::pair, 0)",
    )
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute("update t set n = 1")
    require_same(found, postgres, "id, v::text, n")


def test_arrays_of_boxes_and_decimals_of_more_places_than_digits_and_keys_that_are_arrays(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute("create table t (id int[] primary key, b box[], n numeric(3, 5))")
    values = "insert into t values ('{{{}}}', '{{(1,1),(0,0);NULL;(2,2),(1,1)}}', 0.00123)"
    postgres.execute(values.format(1))
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute(values.format(2), "delete from t where id = '{1}'", values.format("1,3"))
    require_same(found, postgres, "id::text, b::text[], n")


UNKNOWN = (
    "create table t (id int, k int, v text, primary key (id) deferrable)",
    "create table t (id int primary key, k int not null, v text); create unique index x on t (k); "
    "alter table t replica identity using index x; drop index x",
)


@pytest.mark.parametrize("made", UNKNOWN, ids=["deferrable", "without its index"])
def test_a_table_whose_updates_a_publication_would_refuse_is_not_published(
    made: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(*made.split("; "), "insert into t values (1, 1)")
    with pytest.raises(ConfigError, match="do not say which rows they are of"):
        feed(tmp_path, postgres).drain()
    (table,) = look_at_slot(DeclaredSlot(postgres.slot, postgres.slot, "POSTGRES_URI")).tables
    assert "replica identity" in table.obstacle
    # People's own statements are what it is about.
    postgres.execute("update t set v = 'still'")
    postgres.execute("create unique index y on t (id)", "alter table t alter id set not null")
    postgres.execute("alter table t replica identity using index y")
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute("update t set v = 'named'")
    require_same(found, postgres, "id, v")


def test_a_table_with_generated_columns_and_whole_old_rows_is_published_where_it_stays_usable(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table t (id int primary key, v text, w text generated always as (v || 'w') stored)",
        "alter table t replica identity full",
        "insert into t values (1, 'a')",
    )
    found = feed(tmp_path, postgres)
    ((version,),) = postgres.execute("select current_setting('server_version_num')::int")
    if version >= 180_000:
        with pytest.raises(ConfigError, match="refuses its updates once it is published"):
            found.drain()
        postgres.execute("update t set v = 'still'", "alter table t replica identity default")
    found.drain()
    postgres.execute("update t set v = 'named'")
    require_same(found, postgres, "id, v")


def test_a_key_that_two_rows_may_have_within_a_transaction_is_none(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table t (id int, v text, primary key (id) deferrable)",
        "alter table t replica identity full",
        "insert into t values (1, 'a'), (2, 'b'), (3, 'c')",
    )
    with pytest.raises(ConfigError, match="a key that is deferrable is none"):
        feed(tmp_path, postgres).drain()
    # In this order of the log the rows 2 and 3 are written, and deleted as those of before.
    postgres.execute("update t set id = id + 1")
    postgres.execute("alter table t drop constraint t_pkey, add primary key (id)")
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute("update t set id = id - 1")
    require_same(found, postgres, "id, v")


def test_a_column_whose_name_rows_need_on_their_way_is_left_out(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute("create table t (id int primary key, _tideline_sequence bigint, v text)")
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute(
        "insert into t values (1, 9, 'a')",
        "update t set _tideline_sequence = 1, v = 'b'",
        "update t set _tideline_sequence = 0, v = 'c'",
    )
    require_same(found, postgres, "id, v")


def test_rows_are_known_by_the_index_that_names_them(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table t (id int primary key, k int not null, v text)",
        "create unique index x on t (k)",
        "alter table t replica identity using index x",
        "insert into t values (1, 7, 'a'), (2, 8, 'b'), (3, 9, 'c')",
    )
    with pytest.raises(AssertionError, match="recordKey is id, and rows of t are known by k"):
        feed(tmp_path / "by id", postgres).drain()
    found = feed(tmp_path, postgres, "k", changes_max=1)
    assert found.drain() is None
    postgres.execute("update t set v = 'd' where id = 1", "delete from t where id = 2")
    require_same(found, postgres, "k, id, v")


def test_a_column_whose_name_the_lake_cannot_have_is_left_out_by_the_schema(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute('create table t (id int primary key, Ünité text, "two words" text)')
    postgres.execute("insert into t values (1, 'a', 'b')")
    with pytest.raises(AssertionError, match=r"name the other columns in source\.schema"):
        feed(tmp_path, postgres).drain()
    found = feed(tmp_path, postgres, schema=columns(id="int", Ünité="string"))
    postgres.execute("insert into t values (2, 'c', 'd')")
    require_same(found, postgres, "id, Ünité")


def test_a_table_that_becomes_unlogged_is_named(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(
        "create table t (id int primary key, v text)",
        "insert into t values (1, 'a')",
        # One of its own would not let it.
        f"create publication {postgres.slot} for all tables",
    )
    found = feed(tmp_path, postgres)
    found.drain()
    postgres.execute("alter table t set unlogged", "insert into t values (2, 'b')")
    with pytest.raises(ConfigError, match=r"unlogged.*alter table t set logged.*tideline resync"):
        found.plan()
    postgres.execute("alter table t set logged")
    found.again()
    require_same(found, postgres, "id, v")


def test_a_value_that_is_no_text_is_named_with_its_remedy(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PostgresDatabase(postgres.server, "SQL_ASCII") as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute("create table t (id int primary key, v text)")
        found = feed(tmp_path, database)
        found.drain()
        database.execute("insert into t values (1, E'a\\xe9')")
        with pytest.raises(ConfigError, match=r"0xe9.*correct it in the source.*tideline resync"):
            found.plan()
        database.execute(
            "update t set v = 'a'",
            "select pg_replication_slot_advance(slot_name, pg_current_wal_lsn())"
            f" from pg_replication_slots where slot_name = '{database.slot}'",
        )
        assert isinstance(found.plan(), Lost)
        found.again()
        require_same(found, database, "id, v")
