"""The same changes by PyIceberg and by Tideline, in an SQL catalog: the same table at last."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError
from tideline.iceberg.evolution.changes import IcebergChanges
from tideline.iceberg.metadata.field_type import parts_of, walk
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.fake_clock import FakeClock

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.iceberg.table.open_table import IcebergTable

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("count", pa.int32()),
        ("ratio", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("seen", pa.timestamp("us")),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("marks", pa.list_(pa.struct([("mark", pa.int32())]))),
        ("notes", pa.map_(pa.string(), pa.struct([("text", pa.string())]))),
    ]
)
NEW_TYPES: tuple[tuple[str, Any], ...] = (
    ("int", IntegerType()),
    ("decimal(12, 3)", DecimalType(12, 3)),
    ("list<binary>", ListType(0, BinaryType(), False)),
    (
        "struct<a: int, b: map<string, double>>",
        StructType(
            NestedField(0, "a", IntegerType(), required=False),
            NestedField(0, "b", MapType(0, StringType(), 0, DoubleType(), False), required=False),
        ),
    ),
)
WIDER = {"int": ("long", LongType()), "float": ("double", DoubleType())}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables that are the same, one for each."""

    theirs: Table
    ours: IcebergLakeTable

    def say(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self.theirs.refresh()
        self.ours.refresh()
        mine = self.ours.metadata
        # As our own parser reads what PyIceberg wrote.
        yours = IcebergTable(CatalogTable(self.theirs.catalog, self.theirs.name())).metadata
        return definition(yours), definition(mine)


def definition(metadata: Any) -> dict[str, Any]:
    mapping = metadata.name_mapping()
    return {
        "schemas": [schema.json() for schema in metadata.schemas],
        "schema": metadata.current_schema_id,
        "last_column": metadata.last_column_id,
        "specs": [spec.json() for spec in metadata.partition_specs],
        "spec": metadata.default_spec_id,
        "last_field": metadata.last_partition_id,
        "order": list(metadata.sort_order().json()["fields"]),
        "mapping": None if mapping is None else normal(mapping),
        "format_version": metadata.format_version,
        "refs": {
            name: ref.json() | {"snapshot-id": position(metadata, ref.snapshot_id)}
            for name, ref in metadata.refs.items()
        },
        "properties": {n: v for n, v in metadata.properties.items() if "mapping" not in n},
    }


def position(metadata: Any, snapshot_id: int) -> int:
    return [snapshot.snapshot_id for snapshot in metadata.snapshots].index(snapshot_id)


def normal(mapping: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "field-id": item["field-id"],
            "names": sorted(item["names"]),
            "fields": normal(item.get("fields") or []),
        }
        for item in mapping
    ]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db")
    catalog.create_namespace("lake")

    def made(version: int = 2, *, is_mapped: bool = True) -> Pair:
        for name in ("theirs", "ours"):
            table = catalog.create_table(
                f"lake.{name}",
                COLUMNS,
                location=f"file://{tmp_path}/{name}",
                properties={"format-version": str(version)},
            )
            if is_mapped:
                mapping = create_mapping_from_schema(table.schema()).model_dump_json()
                with table.transaction() as change:
                    change.set_properties({"schema.name-mapping.default": mapping})
        ours = IcebergTable(CatalogTable(catalog, "lake.ours", clock=FakeClock()))
        return Pair(catalog.load_table("lake.theirs"), IcebergLakeTable(ours, FakeClock()))

    yield made
    catalog.close()


def test_columns_at_any_depth(make: Callable[..., Pair]) -> None:
    pair = make()
    with pair.theirs.update_schema() as update:
        update.add_column("total", DecimalType(9, 2), doc="in euros")
        update.move_after("total", "id")
        update.add_column(("place", "street"), StringType())
        update.add_column(("marks", "by"), StringType())
        update.add_column(("notes", "lang"), StringType())
        update.update_column("count", LongType())
        update.update_column("price", DecimalType(18, 2))
        update.rename_column("ratio", "share")
        update.delete_column("day")
    with pair.ours.alter() as changes:
        changes.add_column("total", "decimal(9,2)", doc="in euros", after="id")
        changes.add_column("place.street", "string").add_column("marks.by", "string")
        changes.add_column(("notes", "lang"), "varchar").change_type("count", "bigint")
        changes.change_type("PRICE", "decimal(18, 2)").rename_column("ratio", "share")
        changes.drop_column("day")
    theirs, ours = pair.say()
    assert theirs == ours
    assert len(ours["schemas"]) == 2


def test_names_that_change_hands(make: Callable[..., Pair]) -> None:
    pair = make()
    for old, new in (("count", "spare"), ("ratio", "count"), ("spare", "ratio")):
        with pair.theirs.update_schema() as update:
            update.rename_column(old, new)
        pair.ours.alter().rename_column(old, new).commit()
    with pair.theirs.update_schema() as update:
        update.delete_column("ratio")
    with pair.theirs.update_schema() as update:
        update.add_column("ratio", StringType())
    pair.ours.alter().drop_column("ratio").commit()
    pair.ours.alter().add_column("ratio", "string").commit()
    theirs, ours = pair.say()
    assert theirs == ours
    assert ours["mapping"] is not None


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_that_come_and_go(make: Callable[..., Pair], version: int) -> None:
    pair = make(version)
    for add, term in (
        (("day", "month", None), "month(day)"),
        (("id", "bucket[8]", None), "bucket(8, id)"),
        (("place.city", "truncate[3]", "town"), "truncate(3, place.city)"),
    ):
        with pair.theirs.update_spec() as update:
            update.add_field(*add)
        pair.ours.alter().add_partition_field(term, add[2]).commit()
    for name in ("day_month", "id_bucket_8"):
        with pair.theirs.update_spec() as update:
            update.remove_field(name)
        pair.ours.alter().drop_partition_field(name).commit()
    with pair.theirs.update_spec() as update:
        update.add_field("id", "bucket[8]").rename_field("town", "place_town")
    with pair.ours.alter() as changes:
        changes.add_partition_field("bucket(8, id)").rename_partition_field("town", "place_town")
    theirs, ours = pair.say()
    assert theirs == ours
    assert len(ours["specs"]) > 4


def test_order_properties_and_version(make: Callable[..., Pair]) -> None:
    pair = make(1)
    with pair.theirs.update_sort_order() as update:
        update.desc("count", IdentityTransform()).asc(
            "id", BucketTransform(4), NullOrder.NULLS_FIRST
        )
    with pair.theirs.transaction() as change:
        change.upgrade_table_version(2)
    with pair.theirs.transaction() as change:
        change.set_properties({"a": "1", "b": "2"})
    with pair.theirs.transaction() as change:
        change.remove_properties("a")
    with pair.ours.alter() as changes:
        changes.set_sort_order("count desc, bucket(4, id)").upgrade(2)
        changes.set_properties({"a": "1", "b": "2"}).unset_properties("a")
    theirs, ours = pair.say()
    assert theirs == ours


def test_branches_and_tags(make: Callable[..., Pair]) -> None:
    pair = make()
    rows = pa.table({"id": [1]}).cast(pa.schema([COLUMNS.field("id")]))
    catalog = pair.theirs.catalog
    for _ in range(3):
        pair.theirs.append(rows)
        catalog.load_table("lake.ours").append(rows)
    pair.theirs.refresh()
    first, second, third = (s.snapshot_id for s in pair.theirs.metadata.snapshots)
    with pair.theirs.manage_snapshots() as manage:
        manage.create_branch(second, "audit", 10_000, 20_000, 3)
        manage.create_tag(first, "old", 5_000)
    with pair.theirs.manage_snapshots() as manage:
        manage.create_tag(third, "gone")
    with pair.theirs.manage_snapshots() as manage:
        manage.remove_tag("gone")
    with pair.theirs.manage_snapshots() as manage:
        manage.rollback_to_snapshot(first)
    mine = [s.snapshot_id for s in pair.ours.refresh().snapshots]
    with pair.ours.alter() as changes:
        changes.create_branch(
            "audit",
            mine[1],
            max_ref_age_ms=10_000,
            min_snapshots_to_keep=3,
            max_snapshot_age_ms=20_000,
        )
        changes.create_tag("old", mine[0], max_ref_age_ms=5_000).create_tag("gone")
    pair.ours.alter().drop_tag("gone").rollback(mine[0]).commit()
    theirs, ours = pair.say()
    assert theirs == ours
    # What was published by one is written to by the other.
    assert catalog.load_table("lake.ours").scan().to_arrow().num_rows == 1
    pair.ours.alter().fast_forward("main", "audit").commit()
    catalog.load_table("lake.ours").append(rows)
    assert pair.ours.count() == 3


class History:
    """Random changes of both tables."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair, self.chance, self.numbers = pair, random.Random(seed), iter(range(1000))

    def step(self) -> None:
        columns = list(walk(self.pair.ours.metadata.schema().fields))
        members = [(n, f) for n, f in columns if not n.endswith((".element", ".key", ".value"))]
        name, field = self.chance.choice([m for m in members if "notes.key" not in m[0]])
        kind = self.chance.choice(("add", "drop", "rename", "widen", "doc", "move", "part"))
        getattr(self, kind)(name, field)

    def both(self, theirs: Callable[[Any], Any], ours: Callable[[IcebergChanges], Any]) -> None:
        """Done by both, or refused by both."""
        refusals: list[Exception | None] = []
        for act in (lambda: self._theirs(theirs), lambda: ours(self.pair.ours.alter()).commit()):
            try:
                act()
                refusals.append(None)
            except (ValueError, ValidationError, ConfigError) as error:
                refusals.append(error)
        assert (refusals[0] is None) == (refusals[1] is None), refusals

    def _theirs(self, change: Callable[[Any], Any]) -> None:
        with self.pair.theirs.update_schema() as update:
            change(update)

    def add(self, name: str, field: Any) -> None:
        text, kind = self.chance.choice(NEW_TYPES)
        own = f"n{next(self.numbers)}"
        path = (*name.split("."), own) if parts_of(field.type) else (own,)
        if str(path[0]) not in [f.name for f in self.pair.ours.metadata.schema().fields]:
            path = (own,)
        self.both(
            lambda u: u.add_column(path, kind, doc=own), lambda c: c.add_column(path, text, doc=own)
        )

    def drop(self, name: str, _field: Any) -> None:
        if len(self.pair.ours.metadata.schema().fields) < 4:
            return
        path = name.rpartition(".")[0]
        around = self.pair.ours.metadata.schema().find(path) if path else None
        if around is not None and len(parts_of(around.type)) < 2:
            return
        self.both(lambda u: u.delete_column(name), lambda c: c.drop_column(name))

    def rename(self, name: str, _field: Any) -> None:
        new = f"r{next(self.numbers)}"
        self.both(lambda u: u.rename_column(name, new), lambda c: c.rename_column(name, new))

    def widen(self, name: str, field: Any) -> None:
        if parts_of(field.type):
            return
        text, kind = WIDER.get(str(field.type), ("double", DoubleType()))
        self.both(lambda u: u.update_column(name, kind), lambda c: c.change_type(name, text))

    def doc(self, name: str, _field: Any) -> None:
        doc = f"d{next(self.numbers)}"
        self.both(lambda u: u.update_column(name, doc=doc), lambda c: c.set_doc(name, doc))

    def move(self, name: str, _field: Any) -> None:
        if "." in name and name.rpartition(".")[0].endswith((".element", ".value")):
            return
        self.both(lambda u: u.move_first(name), lambda c: c.move_column(name, first=True))

    def part(self, name: str, field: Any) -> None:
        if "." in name or parts_of(field.type):
            return
        width = self.chance.choice((4, 8))
        known = [f.name for f in self.pair.ours.metadata.spec().fields]
        if known and self.chance.random() < 0.5:
            gone = self.chance.choice(known)
            with self.pair.theirs.update_spec() as update:
                update.remove_field(gone)
            self.pair.ours.alter().drop_partition_field(gone).commit()
        elif str(field.type) in ("int", "long", "string", "date"):
            try:
                with self.pair.theirs.update_spec() as update:
                    update.add_field(name, f"bucket[{width}]")
            except ValueError:
                with pytest.raises(ConfigError):
                    self.pair.ours.alter().add_partition_field(f"bucket({width}, {name})").commit()
                return
            self.pair.ours.alter().add_partition_field(f"bucket({width}, {name})").commit()


@pytest.mark.slow_with("1", "2", "3", "4", "5")
@pytest.mark.parametrize("seed", range(6), ids=str)
def test_random_histories(make: Callable[..., Pair], seed: int) -> None:
    pair = make(2)
    history = History(pair, seed)
    for number in range(25):
        history.step()
        theirs, ours = pair.say()
        assert theirs == ours, f"after {number} steps of {seed}"
    assert len(ours["schemas"]) > 5
