"""Which changes of a schema a write may bring, and what they make of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import InvalidDataError
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import evolve, with_meta_fields
from tideline.hudi.table.schema_change import NO_CHANGE

TABLE = pa.schema([("id", pa.string()), ("n", pa.int32()), ("x", pa.float64())])


def changed(table: Any, incoming: Any) -> pa.DataType:
    """The type of a column of type `table` after a write with type `incoming`."""
    evolved = evolve(pa.schema([("c", table)]), pa.schema([("c", incoming)]))
    return evolved.schema.field("c").type


def test_the_same_schema_changes_nothing() -> None:
    evolved = evolve(TABLE, TABLE)
    assert evolved.schema == TABLE
    assert evolved.change.added == ()
    assert evolved.change.widened == ()


@given(st.permutations(["ID", "n", "X"]))
def test_order_and_case_of_the_input_do_not_matter(names: list[str]) -> None:
    types = {"ID": pa.string(), "n": pa.int32(), "X": pa.float64()}
    assert evolve(TABLE, pa.schema([(name, types[name]) for name in names])).schema == TABLE


def test_new_columns_come_last_and_are_nullable() -> None:
    incoming = pa.schema([pa.field("new", pa.int16(), nullable=False), *TABLE])
    evolved = evolve(TABLE, incoming)
    assert evolved.schema == TABLE.append(pa.field("new", pa.int32()))
    assert evolved.change.added == (("new", "int32"),)


def test_meta_columns_of_the_input_are_not_looked_at() -> None:
    assert evolve(TABLE, with_meta_fields(TABLE)).schema == TABLE


def test_a_table_without_schema_takes_that_of_the_input() -> None:
    incoming = pa.schema([pa.field("id", pa.large_string()), pa.field("at", pa.timestamp("ns"))])
    evolved = evolve(None, incoming)
    assert evolved.schema == pa.schema([("id", pa.string()), ("at", pa.timestamp("us"))])
    assert evolved.change.added == (("id", "string"), ("at", "timestamp[us]"))


NUMBERS = [pa.int32(), pa.int64(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("old", NUMBERS)
@pytest.mark.parametrize("new", NUMBERS)
def test_numbers_end_as_the_wider_of_both_types(old: pa.DataType, new: pa.DataType) -> None:
    wider = max(old, new, key=NUMBERS.index)
    evolved = evolve(pa.schema([("c", old)]), pa.schema([("c", new)]))
    assert evolved.schema.field("c").type == wider
    assert evolved.change.widened == ((("c", str(old), str(new)),) if wider != old else ())


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (pa.int32(), pa.int8()),
        (pa.int64(), pa.uint32()),
        (pa.string(), pa.large_string()),
        (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.string(), pa.null()),
        (pa.struct([("a", pa.int32())]), pa.null()),
        (pa.binary(), pa.binary(16)),
        (pa.timestamp("us", tz="UTC"), pa.timestamp("ns", tz="Asia/Tokyo")),
        (pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="UTC")),
        (pa.timestamp("ms", tz="UTC"), pa.timestamp("ms", tz="UTC")),
        (pa.decimal128(10, 2), pa.decimal128(9, 2)),
        (pa.decimal128(10, 2), pa.decimal128(8, 0)),
        (pa.list_(pa.int64()), pa.large_list(pa.int32())),
        (pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.int32())),
        # Iceberg's alone.
        (pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.struct([("at", pa.timestamp("ns"))]), pa.struct([("at", pa.timestamp("ns"))])),
        (pa.map_(pa.int64(), pa.string()), pa.map_(pa.int64(), pa.string())),
    ],
)
def test_input_that_fits_is_promoted_to_the_tables_type(
    table: pa.DataType, incoming: pa.DataType
) -> None:
    assert changed(table, incoming) == table


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.string(), pa.binary()),
        (pa.int32(), pa.bool_()),
        (pa.int64(), pa.decimal128(10, 0)),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.decimal128(10, 2), pa.decimal128(10, 0)),
        (pa.date32(), pa.timestamp("us", tz="UTC")),
        (pa.timestamp("us", tz="UTC"), pa.timestamp("us")),
        (pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")),
        (pa.list_(pa.int32()), pa.int32()),
        (pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_any_other_change_is_refused_naming_column_and_both_types(
    table: pa.DataType, incoming: pa.DataType
) -> None:
    with pytest.raises(InvalidDataError) as caught:
        changed(table, incoming)
    assert caught.value.value == "c"
    assert f"from {table} to {incoming}" in caught.value.message


def test_a_missing_column_is_refused_by_name_or_becomes_null() -> None:
    incoming = pa.schema([("id", pa.string())])
    with pytest.raises(InvalidDataError, match="lacks columns") as caught:
        evolve(TABLE, incoming)
    assert caught.value.value == "n, x"
    assert evolve(TABLE, incoming, missing=MissingColumns.NULL).schema == TABLE


def test_a_missing_required_column_becomes_nullable_when_nulls_are_allowed() -> None:
    table = pa.schema([pa.field("id", pa.string()), pa.field("n", pa.int32(), nullable=False)])
    evolved = evolve(table, pa.schema([("id", pa.string())]), missing=MissingColumns.NULL)
    assert evolved.schema.field("n").nullable


@pytest.mark.parametrize(
    ("table", "incoming", "result"),
    [(False, False, False), (False, True, True), (True, False, True), (True, True, True)],
)
def test_a_column_is_nullable_where_either_side_may_be_null(
    table: bool, incoming: bool, result: bool
) -> None:
    evolved = evolve(
        pa.schema([pa.field("c", pa.int32(), table)]),
        pa.schema([pa.field("c", pa.int32(), incoming)]),
    )
    assert evolved.schema.field("c").nullable is result


def test_structs_lists_and_maps_evolve_part_by_part() -> None:
    def nested(*extra: pa.Field, number: pa.DataType) -> pa.Schema:
        point = pa.struct([pa.field("x", number), *extra])
        return pa.schema(
            [
                pa.field("s", point),
                pa.field("l", pa.list_(pa.field("element", point))),
                pa.field("m", pa.map_(pa.string(), pa.field("value", point))),
            ]
        )

    evolved = evolve(nested(number=pa.int32()), nested(pa.field("y", pa.int8()), number=pa.int64()))
    assert evolved.schema == nested(pa.field("y", pa.int32()), number=pa.int64())
    added = [(f"{name}.y", "int32") for name in ("s", "l.element", "m.value")]
    assert list(evolved.change.added) == added
    assert [name for name, _, _ in evolved.change.widened] == ["s.x", "l.element.x", "m.value.x"]


def test_nested_columns_match_without_case_and_are_missed_by_their_dotted_name() -> None:
    table = pa.schema([("s", pa.struct([("a", pa.int32()), ("b", pa.int32())]))])
    evolved = evolve(table, pa.schema([("S", pa.struct([("B", pa.int32()), ("A", pa.int32())]))]))
    assert evolved.schema == table
    with pytest.raises(InvalidDataError) as caught:
        evolve(table, pa.schema([("s", pa.struct([("a", pa.int32())]))]))
    assert caught.value.value == "s.b"


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (["id"], ["id", "ID"]),
        (["id"], ["Id", "iD"]),
        (["a", "A"], ["a", "A", "a"]),
        (["id"], ["id", "new", "NEW"]),
        (["id"], ["id", "id"]),
    ],
)
def test_names_that_differ_only_by_case_are_ambiguous(
    table: list[str], incoming: list[str]
) -> None:
    with pytest.raises(InvalidDataError, match="ambiguous"):
        evolve(
            pa.schema([(name, pa.int32()) for name in table]),
            pa.schema([(name, pa.int32()) for name in incoming]),
        )


def test_a_table_whose_columns_differ_only_by_case_is_matched_exactly() -> None:
    table = pa.schema([("a", pa.int32()), ("A", pa.int32())])
    assert evolve(table, pa.schema([("A", pa.int32()), ("a", pa.int32())])).schema == table


def test_a_new_column_waits_for_its_type_at_any_depth() -> None:
    nothing, point = pa.null(), pa.struct([("x", pa.int32())])
    untyped = pa.struct([("x", pa.int32()), ("y", nothing)])
    table = TABLE.append(pa.field("s", point))
    incoming = pa.schema(
        [
            *TABLE,
            pa.field("s", untyped),
            pa.field("a", nothing),
            pa.field("b", pa.list_(nothing)),
            pa.field("c", pa.struct([("y", nothing)])),
            pa.field("d", pa.list_(untyped)),
            pa.field("e", pa.map_(pa.string(), nothing)),
        ]
    )
    evolved = evolve(table, incoming)
    assert evolved.schema == table.append(pa.field("d", pa.list_(pa.field("element", point))))
    assert evolved.change.untyped == ("s.y", "a", "b", "c", "d.element.y", "e")
    assert evolve(evolved.schema, incoming).schema == evolved.schema


def test_a_missing_column_is_null_where_it_may_be_and_refused_by_name_elsewhere() -> None:
    inner = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())])
    table = pa.schema([*TABLE, pa.field("s", inner), pa.field("w", pa.int32(), nullable=False)])
    may = {"missing": MissingColumns.OPTIONAL_ARE_NULL}
    with pytest.raises(InvalidDataError, match="lacks required columns of the table") as caught:
        evolve(table, pa.schema([("id", pa.string())]), **may)
    assert caught.value.value == "w"
    some = pa.schema([pa.field("w", pa.int32(), nullable=False), pa.field("id", pa.string())])
    assert evolve(table, some, **may).schema == table
    lacking = some.append(pa.field("s", pa.struct([("b", pa.int32())])))
    with pytest.raises(InvalidDataError, match="lacks required columns of the table") as caught:
        evolve(table, lacking, **may)
    assert caught.value.value == "s.a"


COLUMN_TYPES = st.sampled_from([*NUMBERS, pa.string(), pa.date32(), pa.list_(pa.int32())])
SCHEMAS = st.dictionaries(st.sampled_from("abcde"), COLUMN_TYPES, min_size=1).map(
    lambda columns: pa.schema(list(columns.items()))
)


@given(SCHEMAS, SCHEMAS)
def test_what_evolved_once_takes_both_schemas_without_another_change(
    table: pa.Schema, incoming: pa.Schema
) -> None:
    try:
        evolved = evolve(table, incoming, missing=MissingColumns.NULL).schema
    except InvalidDataError:
        return
    assert evolved.names[: len(table.names)] == table.names
    assert set(evolved.names) == {*table.names, *incoming.names}
    for schema in (table, incoming):
        again = evolve(evolved, schema, missing=MissingColumns.NULL)
        assert again.schema == evolved
        assert again.change == NO_CHANGE
