"""Changes of an Iceberg table's definition: what they refuse, races, deaths, branches and tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, UnsupportedTableError
from tideline.iceberg.evolution.changes import IcebergChanges
from tideline.iceberg.evolution.columns import AddColumn
from tideline.iceberg.evolution.execute import ChangeRun, execute_changes, plan_changes
from tideline.iceberg.evolution.refs import CreateRef
from tideline.iceberg.evolution.step import Step
from tideline.iceberg.evolution.type_text import as_type
from tideline.iceberg.metadata.field_type import NestedField, Primitive, StructType
from tideline.iceberg.metadata.metadata_update import apply_updates
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import OWNER
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed, Conflicted
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_values import table_metadata

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", Primitive("long"), required=True),
        NestedField(2, "count", Primitive("int")),
        NestedField(3, "day", Primitive("date")),
        NestedField(
            4,
            "place",
            StructType((NestedField(5, "city", Primitive("string")),)),
        ),
        NestedField(6, "notes", as_type("map<string, struct<text: string>>")),
        NestedField(7, "sure", Primitive("string"), required=True),
    ),
    (1,),
)
SPEC = PartitionSpec(0, (PartitionField(3, 1000, "day_bucket", Transform("bucket", 4)),))
Edit = Callable[[IcebergChanges], Any]


def planned(
    edit: Edit, version: int = 2, properties: Mapping[str, str] | None = None
) -> TableMetadata:
    """The table after a change."""
    metadata = table_metadata(SCHEMA, SPEC, format_version=version, properties=properties)
    changes = IcebergChanges(None, FakeClock())  # type: ignore[arg-type]
    edit(changes)
    plan = plan_changes(metadata, changes._steps, now_ms=0)
    return apply_updates(metadata, plan.updates, now_ms=0)


REFUSED: tuple[tuple[Edit, str], ...] = (
    (lambda c: c.add_column("count", "int"), "there is a column count"),
    (lambda c: c.add_column("COUNT", "int"), "differs from COUNT in case alone"),
    (lambda c: c.add_column("place.CITY", "int"), "in case alone"),
    (lambda c: c.add_column("nope.x", "int"), "no such column"),
    (lambda c: c.add_column(("place.city",), "int"), "two columns would have one name"),
    (lambda c: c.rename_column("count", "place.city"), "two columns would have one name"),
    (lambda c: c.add_partition_field("bucket(2147483648, count)"), "no such transform"),
    (lambda c: c.add_column("count.x", "int"), "is no struct"),
    (lambda c: c.add_column("x", "int", required=True), "a required column has a default"),
    (lambda c: c.add_column("x", "int", default=1), "before format version 3"),
    (lambda c: c.add_column("x", "timestamp_ns"), "from format version 3"),
    (lambda c: c.add_column("x", "list<variant>"), "from format version 3"),
    (lambda c: c.add_column("x", "strange"), "this is no type"),
    (lambda c: c.add_column("x", "decimal(39, 2)"), "a decimal has up to 38 digits"),
    (lambda c: c.add_column("x", "int", after="city"), "not in its struct"),
    (lambda c: c.add_column("", "int"), "it has no name"),
    (lambda c: c.add_column("day_bucket", "int"), "the name of a partition field"),
    (lambda c: c.drop_column("day"), "partitioned by it; remove field day_bucket first"),
    (lambda c: c.drop_column("id"), "it identifies rows"),
    (lambda c: c.drop_column("notes.key"), "part of their type"),
    (lambda c: c.drop_column("place.city"), "nothing else is in its struct"),
    (lambda c: c.set_sort_order("count").drop_column("count"), "sorted by it"),
    (lambda c: c.rename_column("count", "id"), "there is a column id"),
    (lambda c: c.rename_column("count", "Day"), "in case alone"),
    (lambda c: c.rename_column("notes.value", "x"), "part of their type"),
    (lambda c: c.change_type("id", "int"), "values of long are not all values of it"),
    (lambda c: c.change_type("count", "string"), "not all values of it"),
    (lambda c: c.change_type("day", "timestamp"), "not all values of it"),
    (lambda c: c.change_type("notes.key", "binary"), "keys of maps"),
    (lambda c: c.set_required("count"), "rows that are there may have no value"),
    (lambda c: c.set_optional("id"), "identifies rows, and it is not required"),
    (lambda c: c.set_identifier_fields("count"), "it is not required"),
    (lambda c: c.set_identifier_fields("place"), "it is of type"),
    (lambda c: c.set_identifier_fields("notes.key"), "a row has many of it"),
    (lambda c: c.add_partition_field("bucket(4, day)"), "partitioned by it already"),
    (lambda c: c.add_partition_field("hour(day)"), "not taken of day"),
    (lambda c: c.add_partition_field("bucket(id)"), "takes a number"),
    (lambda c: c.add_partition_field("zone(id)"), "no such transform"),
    (lambda c: c.add_partition_field("place"), "not taken of place"),
    (lambda c: c.add_partition_field("notes.key"), "in a list or map"),
    (lambda c: c.add_partition_field("bucket(4, id)", "count"), "the name of a column"),
    (lambda c: c.add_partition_field("id", "day_bucket"), "of this name already"),
    (lambda c: c.drop_partition_field("nope"), "no such partition field"),
    (lambda c: c.set_sort_order("zorder(id, count)"), "z-order"),
    (lambda c: c.set_properties({"format-version": "3"}), "upgrade the table instead"),
    (lambda c: c.unset_properties(OWNER), "is reserved"),
    (lambda c: c.set_properties({"encryption.key-id": "k"}), "neither read nor written"),
    (lambda c: c.upgrade(1), "can become version 3"),
    (lambda c: c.upgrade(4), "can become version 3"),
    (lambda c: c.create_branch("audit"), "no snapshot yet"),
    (lambda c: c.drop_branch("audit"), "no such branch"),
)


@pytest.mark.parametrize(("edit", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_cannot_be_is_refused_by_name(edit: Edit, why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
        planned(edit)


def test_a_published_table_is_left_to_its_owner() -> None:
    with pytest.raises(ConfigError, match="published as this one"):
        planned(lambda c: c.add_column("x", "int"), properties={OWNER: "orders"})


def test_defaults_and_promotions_of_version_3() -> None:
    after = planned(
        lambda c: (
            c.drop_partition_field("bucket(4, day)")
            .change_type("day", "timestamp")
            .add_column("price", "decimal(9, 2)", required=True, default="3.50")
            .set_default("price", "4")
            .add_column("at", "timestamptz", default="2026-11-21T10:00:00+02:00")
            .add_column("nothing", "unknown")
        ),
        3,
    ).schema()
    assert str(after.find("day").type) == "timestamp"  # type: ignore[union-attr]
    price, at = after.find("price"), after.find("at")
    assert price is not None and at is not None
    assert (price.required, price.initial_default, price.write_default) == (True, "3.50", "4.00")
    assert at.initial_default == "2026-11-21T08:00:00+00:00"
    for value in ("3.505", "12345678.00", True):
        step = AddColumn("x", "decimal(9, 2)", default=value)
        with pytest.raises(ConfigError, match="cannot have this default"):
            planned(partial(IcebergChanges.add, step=step), 3)
    with pytest.raises(ConfigError, match="would have other values"):
        planned(lambda c: c.change_type("day", "timestamp"), 3)
    with pytest.raises(ConfigError, match="new rows may say nothing"):
        planned(
            lambda c: c.add_column("x", "int", required=True, default=1).set_default("x", None), 3
        )


def test_settings_of_a_column_follow_it() -> None:
    prefix = "write.metadata.metrics.column."
    given = {f"{prefix}count": "none", f"{prefix}sure": "full", f"{prefix}place.city": "counts"}
    edited = planned(
        lambda c: c.rename_column("place", "where").rename_column("count", "n").drop_column("sure"),
        properties=given,
    )
    assert edited.properties == {f"{prefix}n": "none", f"{prefix}where.city": "counts"}


def test_a_mapping_that_is_broken_is_named() -> None:
    for text in ("{", "[1]", '{"a": 1}'):
        with pytest.raises(ConfigError, match="correct or unset it first"):
            planned(
                lambda c: c.add_column("x", "int"), properties={"schema.name-mapping.default": text}
            )


def test_a_change_back_has_the_schema_that_was_there() -> None:
    model = IcebergModel.create()
    table = IcebergTable(model.operations())
    changes = IcebergChanges(table, model.clock)
    changes.rename_column("parity", "side").commit()
    changes.rename_column("side", "parity").commit()
    metadata = model.metadata()
    assert (metadata.current_schema_id, len(metadata.schemas)) == (0, 2)
    assert changes.rename_column("parity", "parity").commit() is None


def execute(model: IcebergModel, store: ObjectStore | None, *steps: Step) -> ChangeRun:
    return execute_changes(model.operations(store), steps, clock=FakeClock())


ALL_AT_ONCE: tuple[Step, ...] = (AddColumn("x", "int"), CreateRef("audit", "branch"))


def is_changed(model: IcebergModel) -> bool:
    metadata = model.metadata()
    found = metadata.schema().find("x") is not None
    assert found == ("audit" in metadata.refs)
    return found


def filled() -> IcebergModel:
    model = IcebergModel.create()
    model.append(range(4))
    return model


def test_dying_before_or_after_any_write() -> None:
    made = FaultyStore(filled().location.open())
    model = filled()
    store = FaultyStore(model.location.open())
    assert isinstance(execute(model, store, *ALL_AT_ONCE).outcome, Committed)
    total, seen = len(store.writes), set()
    assert total == 2 and not made.writes  # the metadata, and the hint
    for number in range(1, total + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            table = filled()
            with pytest.raises(SimulatedCrash):
                execute(table, FaultyStore(table.location.open(), plan), *ALL_AT_ONCE)
            seen.add(is_changed(table))
            if is_changed(table):
                with pytest.raises(ConfigError, match="there is a column x"):
                    execute(table, None, *ALL_AT_ONCE)
            else:
                assert isinstance(execute(table, None, *ALL_AT_ONCE).outcome, Committed)
            table.append([9])
            assert table.rows() == [0, 1, 2, 3, 9]
    assert seen == {False, True}


@pytest.mark.parametrize("reply", LostReply, ids=lambda reply: reply.value)
def test_a_lost_reply_is_no_lost_change(reply: LostReply) -> None:
    model = filled()
    plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=reply)
    store = FaultyStore(model.location.open(), plan)
    assert isinstance(execute(model, store, *ALL_AT_ONCE).outcome, Committed)
    assert is_changed(model)


def test_any_call_may_fail() -> None:
    model = filled()
    store = FaultyStore(model.location.open())
    execute(model, store, *ALL_AT_ONCE)
    for number in range(1, store.calls + 1):
        table = filled()
        failing = FaultyStore(
            table.location.open(), FaultPlan(unavailable_calls=frozenset([number]))
        )
        try:
            outcome = execute(table, failing, *ALL_AT_ONCE).outcome
        except StorageUnavailableError:
            assert not is_changed(table), number
        else:
            assert isinstance(outcome, Committed), number
            assert is_changed(table), number


class Racing:
    """Operations before whose first commit another writer changes the table."""

    def __init__(self, model: IcebergModel, other: Callable[[], Any]) -> None:
        self._own, self._other = model.operations(), [other]
        self.io, self.arguments, self.load = self._own.io, self._own.arguments, self._own.load

    def commit(self, *arguments: Any) -> Any:
        while self._other:
            self._other.pop()()
        return self._own.commit(*arguments)


def race(model: IcebergModel, other: tuple[Step, ...], *steps: Step) -> ChangeRun:
    racing = Racing(model, lambda: execute(model, None, *other))
    return execute_changes(racing, steps, clock=FakeClock())


def test_of_two_at_once_each_has_its_own_column() -> None:
    model = filled()
    run = race(model, (AddColumn("a", "struct<b: int>"),), AddColumn("x", "int"))
    assert isinstance(run.outcome, Committed)
    schema = model.metadata().schema()
    assert [(field.field_id, field.name) for field in schema.fields[2:]] == [(3, "a"), (5, "x")]


def test_of_two_that_want_the_same_name_one_is_refused() -> None:
    model = filled()
    run = race(model, (AddColumn("x", "string"),), AddColumn("x", "int"))
    assert isinstance(run.outcome, Conflicted)
    assert "another writer was first" in run.outcome.reason
    assert str(model.metadata().schema().find("x").type) == "string"  # type: ignore[union-attr]


def test_rows_written_meanwhile_stay() -> None:
    model = filled()
    racing = Racing(model, lambda: model.append([7]))
    run = execute_changes(racing, ALL_AT_ONCE, clock=FakeClock())
    assert isinstance(run.outcome, Committed)
    assert is_changed(model)
    assert model.rows() == [0, 1, 2, 3, 7]
    # The branch is made of what is newest then.
    assert model.rows("audit") == [0, 1, 2, 3, 7]


def test_a_folder_keeps_its_metadata_in_it() -> None:
    model = filled()
    changes = IcebergChanges(IcebergTable(model.operations()), model.clock)
    with pytest.raises(UnsupportedTableError, match="in its own folder"):
        changes.set_properties({"write.metadata.path": "s3://elsewhere"}).commit()
    model.append([8])


def test_write_audit_publish() -> None:
    model = filled()
    table = IcebergTable(model.operations())
    changes = IcebergChanges(table, model.clock)
    first = table.metadata.refs[MAIN].snapshot_id
    changes.create_branch("audit", min_snapshots_to_keep=2).commit()
    changes.create_tag("before").commit()
    model.append([5])
    with pytest.raises(ConfigError, match="not an ancestor of audit"):
        changes.fast_forward(MAIN, "audit").commit()
    changes = IcebergChanges(table, model.clock)
    changes.fast_forward("audit", MAIN).commit()
    assert model.metadata().refs["audit"].min_snapshots_to_keep == 2
    changes.rollback("before").commit()
    assert model.rows() == [0, 1, 2, 3]
    changes.fast_forward(MAIN, "audit").commit()
    assert model.rows() == [0, 1, 2, 3, 5]
    log = [entry.snapshot_id for entry in model.metadata().snapshot_log]
    assert log == [first, log[1], first, log[1]]
    changes.rename_branch("audit", "checked").drop_tag("before").commit()
    assert sorted(model.metadata().refs) == ["checked", MAIN]
    refused: tuple[tuple[Edit, str], ...] = (
        (lambda c: c.create_tag("checked"), "there is a branch of this name"),
        (lambda c: c.create_branch("checked"), "already"),
        (lambda c: c.create_branch("x", "nowhere"), "keeps no such snapshot"),
        (lambda c: c.drop_branch(MAIN), "main branch cannot be dropped"),
        (lambda c: c.rename_branch(MAIN, "x"), "cannot be renamed"),
        (lambda c: c.rename_branch("checked", MAIN), "another branch or tag"),
        (lambda c: c.drop_tag("checked"), "no such tag"),
        (lambda c: c.set_branch_retention(MAIN, max_ref_age_ms=1), "kept for ever"),
        (lambda c: c.set_branch_retention("checked", min_snapshots_to_keep=0), "positive"),
        (lambda c: c.rollback(1), "keeps no such snapshot"),
        (lambda c: c.publish("w"), "keeps no snapshot that was staged"),
    )
    for edit, why in refused:
        attempt = IcebergChanges(table, model.clock)
        edit(attempt)
        with pytest.raises(ConfigError, match=why):
            attempt.commit()
    changes = IcebergChanges(table, model.clock)
    assert changes.create_branch("checked", if_absent=True).commit() is None
    assert changes.drop_branch("nope", if_present=True).commit() is None


def test_an_upgraded_table_is_written_and_read() -> None:
    for start in (1, 2):
        model = IcebergModel.create(format_version=start)
        model.append(range(4))
        IcebergChanges(IcebergTable(model.operations()), model.clock).upgrade(3).commit()
        document = model.metadata().json()
        assert document["format-version"] == 3 and document["next-row-id"] == 0
        assert "schema" not in document and "partition-spec" not in document
        model.append([7])
        assert model.rows() == [0, 1, 2, 3, 7]
        snapshot = model.metadata().snapshot()
        assert snapshot is not None and snapshot.first_row_id == 0
