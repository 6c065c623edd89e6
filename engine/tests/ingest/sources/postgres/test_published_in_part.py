"""Publications with some rows or columns of a table: the table in the lake has these, from the
first copy on, and what is altered in them is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.hudi.table.meta_column import is_meta_column
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.position import Origin
from tideline.ingest.sources.postgres.slot_tables import look_at_slot
from tideline.ingest.sources.source import Lost, Nothing
from tideline.ingest.verify.verification import Kind
from tideline.lake_table import LakeTable
from tideline.testing.planted_differences import named, verified
from tideline.testing.postgres_feed import PostgresFeed, look_by_wire, position
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.shared_slot_feed import SharedSlotFeed

pytestmark = pytest.mark.postgres

CREATE = (
    "create table orders (id bigint, open bool, v text, secret text default 'secret', n int,"
    " twice int generated always as (n * 2) stored, primary key (id, open))"
)
ROWS = "insert into orders select g, g % 2 = 0, 'v' || g, 'secret', g from generate_series(1, 20) g"
SHOWN = "select id, open, v, n from orders where open and id <> 13 order by id"
IN_PART = "create publication mine for table orders (id, open, v, n) where (open and id <> 13)"
ALTERED = "alter publication mine set table orders"
OTHER_ROWS = f"{ALTERED} (id, open, v, n) where (open and id > 4)"


def feed(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    found = PostgresFeed.of(folder, database, publication="mine", **declared)
    found.key = ("id", "open")
    return found


def ready(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    database.execute(CREATE, ROWS, IN_PART)
    found = feed(folder, database, **declared)
    require_equal(found, database)
    return found


def require_equal(found: PostgresFeed, database: PostgresDatabase, shown: str = SHOWN) -> None:
    assert found.drain() is None
    assert isinstance(found.plan(), Nothing)
    assert found.rows("id", "open", "v", "n") == database.execute(shown)
    compared = verified(found.target, found.source)
    assert compared.found.is_equal, compared.found
    assert compared.found.equal == compared.rows == len(database.execute(shown))


def table_of(found: PostgresFeed) -> LakeTable:
    table = found.table()
    assert table is not None
    return table


def columns_of(found: PostgresFeed) -> list[str]:
    names = table_of(found).to_arrow().column_names
    return [name for name in names if not is_meta_column(name)]


def lost_of(found: PostgresFeed) -> Lost:
    lost = found.plan()
    assert isinstance(lost, Lost), lost
    return lost


def failure(found: PostgresFeed) -> str:
    operation = found.plan()
    assert isinstance(operation, Operation), operation
    result = found.execute(operation)
    assert result.outcome is Outcome.FAILED
    return result.message


@pytest.mark.parametrize("changes_max", [1000, pytest.param(3, marks=pytest.mark.slow)])
def test_rows_that_enter_and_leave_what_is_published_come_and_go(
    changes_max: int, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres, changes_max=changes_max)
    big = "repeat(md5(random()::text), 4000)"
    postgres.execute(
        # Large values that do not change come into what is published with another column.
        f"update orders set v = {big} where id in (1, 2, 4, 5)",
        "update orders set open = true where id in (1, 3, 5)",
        "update orders set open = false where id in (2, 6)",
        "update orders set id = 25, open = true where id = 7",
        "update orders set id = 13 where id = 8",
        "update orders set id = 30 where id = 13 and open",
        "update orders set secret = 'another' where open",
        "insert into orders (id, open, v, n) values (21, true, 'new', 1), (22, false, 'new', 1)",
        "delete from orders where id in (9, 10)",
        "begin; update orders set open = false where id = 12; "
        "update orders set v = 'x', open = true where id = 12; end",
    )
    # What the log has is not called wrong before it is taken in.
    assert verified(found.target, found.source).found.is_equal
    require_equal(found, postgres)
    assert columns_of(found) == ["id", "open", "v", "n"]


@pytest.mark.slow
@pytest.mark.parametrize("identity", ["using index both_of", "full"])
def test_a_condition_may_be_in_the_replica_identity_and_not_in_the_key(
    identity: str, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    create = CREATE.replace("open bool", "open bool not null").replace("(id, open)", "(id)")
    published = "create publication mine for table orders where (open and id <> 13)"
    ((version,),) = postgres.execute("select current_setting('server_version_num')::int")
    if identity == "full" and version >= 180_000:
        # Else the server refuses all updates of the table: it has a generated column.
        published += " with (publish_generated_columns = stored)"
    postgres.execute(
        create,
        "create unique index both_of on orders (id, open)",
        f"alter table orders replica identity {identity}",
        ROWS,
        published,
    )
    found = feed(tmp_path, postgres)
    found.key = ("id",)
    require_equal(found, postgres)
    postgres.execute(
        "update orders set v = repeat(md5(random()::text), 4000) where id in (1, 2, 4)",
        "update orders set open = true where id in (1, 3)",
        "update orders set open = false where id in (2, 6)",
        "update orders set n = 0 where id in (1, 4, 10)",
        "update orders set id = 26 where id = 8",
        "begin; update orders set id = 40 where id = 16; "
        "insert into orders (id, open, v, n) values (16, true, 'other', 0); end",
        "delete from orders where id = 12",
    )
    assert verified(found.target, found.source).found.is_equal
    require_equal(found, postgres)


@pytest.mark.slow
def test_a_death_in_the_copy_repeats_the_same_rows(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(CREATE, ROWS, IN_PART)
    found = feed(tmp_path, postgres, changes_max=4)
    assert isinstance(slot := found.plan(), Operation)
    assert found.execute(slot).exit_code == 0
    # All that a span has may be rows that are not published.
    postgres.execute("update orders set open = false where id <= 8")
    for _ in range(3):
        assert isinstance(planned := found.plan(), Operation)
        # As a second process that has the same plan.
        assert found.execute(planned).exit_code == 0
        assert found.execute(planned).exit_code == 0
    require_equal(found, postgres)


@pytest.mark.parametrize(
    "altering",
    [
        (OTHER_ROWS,),
        pytest.param((f"{ALTERED} (id, open, v, n)",), marks=pytest.mark.slow),
        pytest.param((f"{ALTERED} (id, open, n) where (open)",), marks=pytest.mark.slow),
        pytest.param((ALTERED,), marks=pytest.mark.slow),
    ],
    ids=["rows", "all rows", "columns", "all"],
)
def test_what_is_altered_while_the_ingest_runs_is_named_and_copied_again(
    altering: tuple[str, ...], postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute("update orders set v = 'before' where id = 2", *altering)
    postgres.execute("update orders set v = 'after' where id in (3, 6)")
    lost = lost_of(found)
    assert lost.what == (
        "the publication has other rows or columns of table orders than before, or had none of it "
        "meanwhile"
    )
    assert "tideline resync" in lost.remedy
    with pytest.raises(ConfigError, match="other rows or columns"):
        verified(found.target, found.source)
    found.again()
    (columns, rows), = postgres.execute(
        "select attnames::text[], coalesce(rowfilter, 'true') from pg_publication_tables"
    )  # fmt: skip
    wanted = ", ".join(name if name in columns else "null" for name in ("id", "open", "v", "n"))
    assert found.drain() is None
    assert found.rows("id", "open", "v", "n") == postgres.execute(
        f"select {wanted} from orders where {rows} order by id"
    )
    assert verified(found.target, found.source).found.is_equal


@pytest.mark.slow
def test_a_schema_that_is_published_as_well_gives_all_rows(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    rows = "create publication mine for table orders where (open)"
    postgres.execute(CREATE, ROWS, rows)
    found = feed(tmp_path, postgres)
    require_equal(found, postgres, SHOWN.replace("and id <> 13", ""))
    shared = replace(found.source.declared_slot, publication="mine")
    for schema in ("add tables in schema public", "drop tables in schema public"):
        postgres.execute(f"alter publication mine {schema}")
        assert "has other rows" in lost_of(found).what
        (table,) = look_at_slot(shared).tables
        looked = look_by_wire(found.source, postgres.uri, position(found))
        assert looked.origin == table.origin == found.look().origin
        found.again()
        of = "true" if schema.startswith("add") else "open"
        require_equal(found, postgres, f"select id, open, v, n from orders where {of} order by id")


@pytest.mark.slow
def test_a_table_that_was_in_another_schema_is_copied_again(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(CREATE, ROWS, "create publication mine for tables in schema public")
    found = feed(tmp_path, postgres)
    shown = "select id, open, v, n from orders order by id"
    require_equal(found, postgres, shown)
    stored = position(found).origin
    assert Origin.from_stored(stored.stored()).placed == stored.placed > 0
    # Nothing else looks like it, nor does a position of before that was noted.
    postgres.execute("alter table orders add extra int", "vacuum full pg_depend", "analyze orders")
    postgres.execute("update orders set v = 'here' where id = 3")
    require_equal(found, postgres, shown)
    moved = "alter table orders set schema other", "alter table other.orders set schema public"
    postgres.execute("create schema other", moved[0])
    assert lost_of(found).what == "table orders has become other.orders"
    postgres.execute("update other.orders set v = 'away' where id = 1", moved[1])
    assert replace(stored, placed=0).agrees_with(found.look().origin)
    assert "was in another schema meanwhile" in lost_of(found).what
    found.again()
    require_equal(found, postgres, shown)


@pytest.mark.slow
def test_what_was_written_under_another_condition_is_in_no_copy(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    """The slot is there before the condition is altered: the log has rows of before."""
    postgres.execute(CREATE, ROWS, IN_PART)
    found = feed(tmp_path, postgres)
    slot = found.plan()
    assert isinstance(slot, Operation)
    # It died behind the making of the slot.
    postgres.execute(
        f"select pg_create_logical_replication_slot('{postgres.slot}', 'pgoutput')",
        # With this condition they come; with that of later they are none.
        "update orders set v = 'came' where id in (2, 4)",
        "update orders set v = 'left', open = false where id = 6",
        f"{ALTERED} (id, open, v, n) where (id > 4)",
    )
    shown = "select id, open, v, n from orders where id > 4 order by id"
    assert found.execute(slot).outcome is not Outcome.SUCCEEDED or found.drain() is None
    require_equal(found, postgres, shown)
    # So it is where it is altered before the first row is copied.
    again = feed(tmp_path / "again", postgres)
    assert isinstance(planned := again.plan(), Operation)
    assert again.execute(planned).exit_code == 0
    postgres.execute("update orders set v = 'again' where id = 8", OTHER_ROWS)
    assert "has other rows" in lost_of(again).what


@pytest.mark.slow
def test_no_publication_is_made_of_what_another_left_out(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    postgres.execute("drop publication mine")
    assert lost_of(found).what == "there is no publication mine any more"
    assert found.again().exit_code == 0
    assert position(found).origin.is_narrowed
    assert "had some rows or columns of the table, and does not have it any more" in failure(found)
    assert postgres.execute("select count(*) from pg_publication") == [(0,)]
    postgres.execute("update orders set v = 'later' where id = 2", IN_PART)
    require_equal(found, postgres)
    # What has all again is made as ever.
    postgres.execute("drop publication mine", "create publication mine for table orders")
    found.again()
    assert found.drain() is None
    assert not position(found).origin.is_narrowed
    postgres.execute("drop publication mine")
    found.again()
    assert found.drain() is None
    assert len(found.rows()) == 20


@pytest.mark.slow
def test_tables_of_one_slot_have_what_each_is_published_with(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        CREATE,
        ROWS,
        "create table items (id bigint primary key, v text)",
        "create table keyless (id bigint primary key, v text)",
        f"create publication {postgres.slot} for table items where (id > 3),"
        " orders (id, open, v, n) where (open and id <> 13), keyless (v)",
        "insert into items select g, 'v' || g from generate_series(1, 9) g",
    )
    feeds = SharedSlotFeed.of(tmp_path, postgres, changes_max=4)
    (keyless,) = (table for table in look_at_slot(feeds.slot).tables if table.obstacle)
    assert (keyless.name, keyless.obstacle) == (
        "keyless",
        "the publication leaves out columns of its key",
    )
    postgres.execute("drop table keyless")
    for change in (
        "",
        "update orders set open = not open",
        "update items set id = case when id > 6 then -id else id + 20 end",
    ):
        postgres.execute(*filter(None, (change,)))
        feeds.drain()
        orders, items = feeds.named("orders"), feeds.named("items")
        assert orders.rows("id", "open", "v", "n") == postgres.execute(SHOWN)
        assert items.rows() == postgres.execute("select * from items where id > 3 order by id")
        assert verified(items.target, items.source).found.is_equal
    # The one is copied again, and the other is read.
    postgres.execute(
        f"alter publication {postgres.slot} set table items where (id > 3), "
        "orders (id, open, v, n) where (open)",
        "delete from items where id = 21",
    )
    assert "has other rows" in lost_of(feeds.named("orders")).what
    for name in ("orders", "items"):
        feeds.named(name).again()
    feeds.drain()
    shown = postgres.execute("select id, open, v, n from orders where open order by id")
    assert feeds.named("orders").rows("id", "open", "v", "n") == shown
    # The owner makes the publication again, behind the slot.
    postgres.execute(
        f"drop publication {postgres.slot}",
        "update items set v = 'before' where id = 25",
        f"create publication {postgres.slot} for table items where (id > 5), orders",
        "update items set v = 'behind' where id = 26",
    )
    for name in ("orders", "items"):
        assert isinstance(feeds.named(name).plan(), Lost)
        feeds.named(name).again()
    feeds.drain()
    items = feeds.named("items")
    assert items.rows() == postgres.execute("select * from items where id > 5 order by id")
    # None is published without what it is published with.
    postgres.execute(
        f"alter publication {postgres.slot} set table items where (id > 5), orders where (open)"
    )
    feeds.named("orders").again()
    feeds.named("items").again()
    feeds.drain()
    postgres.execute(f"alter publication {postgres.slot} drop table orders")
    feeds.named("orders").again()
    assert "had some rows or columns of the table" in failure(feeds.named("orders"))


@pytest.mark.slow
def test_partitions_have_the_condition_of_their_table(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        "create table orders (id bigint, open bool, v text, n int, primary key (id, open))"
        " partition by list (open)",
        "create table orders_f partition of orders for values in (false)",
        "create table orders_t (n int, v text, open bool not null, id bigint not null,"
        " primary key (id, open))",
        "insert into orders_t select g, 'attached', true, g from generate_series(1, 9) g",
        "create publication mine for table orders (id, open, v) where (id > 3),"
        " orders_f where (id > 8) with (publish_via_partition_root = true)",
        "insert into orders select g, false, 'v' || g, g from generate_series(1, 9) g",
    )
    found = feed(tmp_path, postgres, on_truncate=OnTruncate.IGNORE)
    typed = found.typed(id="long", open="boolean", v="string")
    found.source = replace(found.source, schema=typed.schema)
    assert found.drain() is None
    postgres.execute(
        "alter table orders attach partition orders_t for values in (true)",
        "update orders set v = 'w' where id in (2, 4)",
        "update orders set id = 20 where id = 1",
    )
    assert found.drain() is None
    shown = "select id, open, v from orders where id > 3 order by id, open"
    assert sorted(found.rows("id", "open", "v")) == postgres.execute(shown)
    assert verified(found.target, found.source).found.is_equal


def test_generated_columns_are_not_in_the_log_and_not_in_the_copy(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(CREATE, ROWS, "create publication mine for table orders")
    found = feed(tmp_path, postgres)
    require_equal(found, postgres, "select id, open, v, n from orders order by id")
    assert columns_of(found) == ["id", "open", "v", "secret", "n"]
    postgres.execute(
        "create table keyed (n int, id int generated always as (n + 1) stored primary key)",
        "alter publication mine add table keyed",
    )
    keyed = PostgresFeed.of(tmp_path / "keyed", postgres, table="keyed", publication="mine")
    with pytest.raises(ConfigError, match="id of the table's key is generated, and not in the log"):
        keyed.look()


def test_verify_names_a_row_that_is_not_published(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = ready(tmp_path, postgres)
    table_of(found).upsert([{"id": 1, "open": False, "v": "v1", "n": 1}])
    table_of(found).delete("id = 2")
    assert named(verified(found.target, found.source)) == {
        (Kind.EXTRA, "id:1,open:false"),
        (Kind.MISSING, "id:2,open:true"),
    }


def test_positions_of_earlier_releases_are_of_whole_tables() -> None:
    stored = ["7", 1, 16384, 16400, 740]
    origin = Origin.from_stored(stored)
    assert (origin.stored(), origin.is_narrowed) == (stored, False)
    narrowed = replace(origin, is_narrowed=True)
    assert Origin.from_stored(narrowed.stored()) == origin
    assert Origin.from_stored(narrowed.stored()).is_narrowed
    assert Origin.from_stored(stored[:4]) == replace(origin, version=0)
