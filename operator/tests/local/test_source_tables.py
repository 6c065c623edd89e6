"""The tables of a LakeSource: those that a real server has, and where its slot may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

import tideline
from tideline.errors import ConfigError
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.postgres import ahead
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.lsn import parse_lsn
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.slot_tables import look_at_slot
from tideline.testing.fake_clock import FakeClock
from tideline.testing.postgres_server import PostgresDatabase
from tideline_operator.local.source_tables import SourceTables
from tideline_operator.resources.lake_source import INGEST
from tideline_operator.resources.loading import load_resources
from tideline_operator.testing.local_run import run_here

SOURCE = """
apiVersion: tideline.dev/v1alpha1
kind: LakeSource
metadata: {{name: shop}}
spec:
  location: lake
  postgres:
    include: [public.*]
    exclude: ["*_tmp"]
    slot: {slot}
  table: {{type: MERGE_ON_READ}}
  every: 10s
"""
OWN = """---
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: own}
spec:
  location: lake/public/items
  recordKey: [id]
  schema: [{name: id, type: long}]
"""
TABLE = "create table {} (id bigint primary key, v text)"
NAMES = ("items", "orders")


@dataclass
class Looked:
    """Looks at a server as `tideline run` does."""

    folder: Path
    database: PostgresDatabase
    clock: FakeClock = field(default_factory=FakeClock)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sources = SourceTables(self.clock)

    def look(self, others: str = "") -> list[str]:
        text = SOURCE.format(slot=self.database.slot) + others
        (self.folder / "lake.yaml").write_text(text)
        self.resources = load_resources([self.folder / "lake.yaml"])
        self.sources.look(self.resources.sources, self.resources.tables, self.notes.append)
        return [table.name for table in self.sources.tables]

    def later(self, seconds: int = 11) -> list[str]:
        self.clock.advance(seconds)
        return self.look()

    def read_to(self, lsns: dict[str, int | None]) -> None:
        """Note positions of the tables of these names, and let the slot move."""
        (source,) = self.resources.sources
        origins = {table.full_name: table.origin for table in look_at_slot(source.slot).tables}
        for table in self.sources.tables:
            declared = table.sources[INGEST]
            assert isinstance(declared, DeclaredPostgres)
            assert declared.is_shared
            lsn = lsns.get(declared.table)
            position = PostgresPosition(origins[declared.table], lsn, None)
            found = {} if lsn is None else {INGEST: Checkpoint(1, position)}
            self.sources.note_checkpoints(table, found)
        self.sources.move_slots(self.resources.sources, self.notes.append)

    def confirmed(self) -> int:
        ((text,),) = self.database.execute(
            "select confirmed_flush_lsn::text from pg_replication_slots"
            f" where slot_name = '{self.database.slot}'"
        )
        return parse_lsn(text)


@pytest.fixture
def looked(tmp_path: Path, postgres: PostgresDatabase) -> Looked:
    return Looked(tmp_path, postgres)


@pytest.mark.postgres
def test_tables_come_and_go_as_on_the_server(looked: Looked, postgres: PostgresDatabase) -> None:
    postgres.execute(
        TABLE.format("items"),
        TABLE.format("load_tmp"),
        "create table keyless (id int)",
        'create table "a b" (id int primary key)',
        "create table codes (region text, code int, primary key (code, region))",
    )
    names = ["default/shop-public-codes", "default/shop-public-items"]
    assert looked.look() == names
    assert looked.notes == [
        "LakeSource default/shop: 2 tables",
        "LakeSource default/shop: public.a b is left: its name has other characters than letters, "
        "digits, _ and -",
        "LakeSource default/shop: public.keyless is left: it has no primary key, or no replica "
        "identity",
    ]
    codes = looked.sources.tables[0]
    assert codes.spec.record_key == ("code", "region")
    assert codes.location.uri == f"file://{looked.folder}/lake/public/codes"
    postgres.execute(TABLE.format("late"), "drop table codes")
    assert looked.later(9) == names
    looked.notes.clear()
    assert looked.later(2) == ["default/shop-public-items", "default/shop-public-late"]
    assert looked.notes == [
        "LakeSource default/shop: public.codes is not on the server any more: its table in "
        f"file://{looked.folder}/lake/public/codes stays as it is"
    ]
    # One that lost its key is kept, and says so when it is looked at.
    postgres.execute("alter table late drop constraint late_pkey")
    assert looked.later() == ["default/shop-public-items", "default/shop-public-late"]


@pytest.mark.postgres
def test_the_tables_stay_while_the_server_cannot_be_listed(
    looked: Looked, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(TABLE.format("items"))
    names = looked.look()
    with monkeypatch.context() as patched:
        patched.delenv("POSTGRES_URI")
        assert looked.later() == names
        (problem,) = looked.sources.problems
        assert problem.exit_code == 2
    assert looked.later(31) == names
    assert looked.sources.problems == ()


@pytest.mark.postgres
def test_a_table_with_a_laketable_of_its_own_is_left_to_it(
    looked: Looked, postgres: PostgresDatabase
) -> None:
    postgres.execute(TABLE.format("items"), TABLE.format("orders"))
    assert looked.look(OWN) == ["default/shop-public-orders"]
    assert "LakeSource default/shop: public.items is left: a LakeTable has its location" in (
        looked.notes
    )


@pytest.mark.postgres
def test_the_slot_moves_to_what_all_tables_have(looked: Looked, postgres: PostgresDatabase) -> None:
    postgres.execute(
        TABLE.format("items"),
        TABLE.format("orders"),
        f"create publication {postgres.slot} for table items, orders",
        f"select pg_create_logical_replication_slot('{postgres.slot}', 'pgoutput')",
    )
    looked.look()
    start = looked.confirmed()
    ends = []
    for _ in range(3):
        ((text,),) = postgres.execute(
            "insert into items select count(*) from items",
            "select pg_current_wal_flush_lsn()::text",
        )
        ends.append(parse_lsn(text))
    looked.read_to({"public.items": ends[2]})
    assert looked.confirmed() == start
    looked.read_to({"public.items": ends[2], "public.orders": ends[0]})
    assert start < looked.confirmed() <= ends[0]
    # One that came since the last look holds it: nobody has read it.
    postgres.execute(TABLE.format("late"))
    moved = looked.confirmed()
    looked.read_to({"public.items": ends[2], "public.orders": ends[1]})
    assert looked.confirmed() == moved
    assert looked.later() == [f"default/shop-public-{name}" for name in ("items", "late", "orders")]
    looked.read_to({f"public.{name}": ends[1] for name in ("items", "late", "orders")})
    assert moved < looked.confirmed() <= ends[1]


def test_a_slot_is_of_one_resource(tmp_path: Path) -> None:
    path = tmp_path / "lake.yaml"
    source = SOURCE.format(slot="s")
    other = source.replace("{name: shop}", "{name: other}").replace("location: lake", "location: b")
    path.write_text(f"{source}---\n{other}")
    with pytest.raises(ConfigError, match="LakeSource default/other: slot s is LakeSource default"):
        load_resources([path])
    table = (
        OWN.replace("public/items", "apart")
        + "  ingest:\n  - name: own\n    source: {format: postgres, table: items, slot: s}\n"
    )
    path.write_text(source + table)
    with pytest.raises(ConfigError, match="LakeSource default/shop: slot s is LakeTable default"):
        load_resources([path])


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("include: [public.*]", "include: []", "spec.postgres.include"),
        ("location: lake", "location: s3://lake/x", "storeRef"),
        ("every: 10s", "onBadRow: Quarantine", "spec.setAside: is required for onBadRow"),
        ("every: 10s", "setAside: lake/any", "overlap; keep them apart"),
        ("slot: s", "slot: S-1", "spec.postgres.slot"),
    ],
)
def test_what_a_source_lacks_is_named(
    before: str, after: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(SOURCE.format(slot="s").replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load_resources([path])
    assert complaint in str(caught.value)


@pytest.mark.postgres
def test_a_run_ends_and_makes_no_empty_commits_where_no_look_has_time(
    postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(*(TABLE.format(name) for name in ("items", "orders")))
    path = tmp_path / "lake.yaml"
    path.write_text(SOURCE.format(slot=postgres.slot))
    assert run_here(path) == 0
    monkeypatch.setattr(ahead, "_LOOKED_S", 0.0)
    for number in range(3):
        postgres.execute(f"insert into items values ({number}, 'x')")
        assert run_here(path) == 0
    items, orders = (tideline.open(str(tmp_path / f"lake/public/{name}")) for name in NAMES)
    assert items.to_arrow().num_rows == 3
    # The slot, the copy.
    assert len(orders.timeline().writes().completed().instants) == 2
