"""What a filter skips: never a file, partition or manifest with a row that the filter selects."""

from __future__ import annotations

import datetime
import operator as python_operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError
from tideline.formats.filter import Filter, Literal, LiteralKind, Not, Operator, Predicate
from tideline.formats.filter_parser import parse_filter
from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.arrow_schema import arrow_schema, arrow_type, as_arrow
from tideline.iceberg.data.condition_pruning import ConditionPruning
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestFile,
)
from tideline.iceberg.metadata.field_type import (
    Decimal,
    ListType,
    NestedField,
    Primitive,
    PrimitiveType,
    StructType,
)
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.single_value import encode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.bound_filter import ALWAYS, NEVER, bind
from tideline.iceberg.scan.partition_value import partition_value
from tideline.iceberg.scan.pruning import FilePruning, Pruning
from tideline.testing.iceberg_values import data_file, table_metadata

INT, LONG, DOUBLE, STRING = (Primitive(name) for name in ("int", "long", "double", "string"))
DATE, TIMESTAMP, ZONED = (Primitive(name) for name in ("date", "timestamp", "timestamptz"))
DECIMAL = Decimal(9, 2)
DAY_MICROS = 86_400 * 10**6
EPOCH = datetime.datetime(1970, 1, 1)

integers = st.integers(-50, 50)
times = st.integers(-500, 500).map(lambda quarter_days: quarter_days * DAY_MICROS // 4)
texts = st.text("ab\U0001f600", max_size=4)
numbers = st.integers(-500, 500).map(lambda cents: Number(cents).scaleb(-2))


def as_text(type_: PrimitiveType, value: Any) -> Literal:
    if type_ == STRING:
        return Literal(LiteralKind.STRING, value)
    if type_ == DATE:
        day = EPOCH + datetime.timedelta(days=value)
        return Literal(LiteralKind.DATE, day.date().isoformat())
    if type_ == TIMESTAMP:
        moment = EPOCH + datetime.timedelta(microseconds=value)
        return Literal(LiteralKind.TIMESTAMP, moment.isoformat(sep=" "))
    return Literal(LiteralKind.NUMBER, str(value))


CASES: list[tuple[PrimitiveType, st.SearchStrategy[Any], list[Transform]]] = [
    (INT, integers, [Transform("bucket", 4), Transform("truncate", 10)]),
    (DECIMAL, numbers, [Transform("bucket", 4), Transform("truncate", 50)]),
    (STRING, texts, [Transform("bucket", 4), Transform("truncate", 2)]),
    (DATE, integers, [Transform("bucket", 4), Transform("month"), Transform("year")]),
    (TIMESTAMP, times, [Transform("hour"), Transform("day"), Transform("month")]),
]
COMPARED: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.LESS: python_operator.lt,
    Operator.LESS_OR_EQUAL: python_operator.le,
    Operator.GREATER: python_operator.gt,
    Operator.GREATER_OR_EQUAL: python_operator.ge,
    Operator.EQUAL: python_operator.eq,
    Operator.NOT_EQUAL: python_operator.ne,
}


def selects(operator: Operator, values: Sequence[Any], value: Any) -> bool:
    """What SQL says of one value."""
    if operator in (Operator.IS_NULL, Operator.NOT_NULL):
        return (value is None) is (operator is Operator.IS_NULL)
    if value is None:
        return False
    if operator in (Operator.IN, Operator.NOT_IN):
        return (value in values) is (operator is Operator.IN)
    if operator in (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH):
        return bool(value.startswith(values[0])) is (operator is Operator.STARTS_WITH)
    return COMPARED[operator](value, values[0])


@st.composite
def filtered_rows(draw: st.DrawFn) -> tuple[Any, ...]:
    """A column's type and transform, the values of its rows, and a predicate on it."""
    type_, values, transforms = draw(st.sampled_from(CASES))
    transform = draw(
        st.sampled_from([Transform("identity"), Transform("void"), Transform("new"), *transforms])
    )
    rows = draw(st.lists(st.none() | values, min_size=1, max_size=4))
    allowed = [candidate for candidate in Operator if "nan" not in candidate.value]
    if type_ != STRING:
        allowed = [candidate for candidate in allowed if "start" not in candidate.value]
    operator = draw(st.sampled_from(allowed))
    if operator in (Operator.IN, Operator.NOT_IN):
        operands = draw(st.lists(values, min_size=1, max_size=3))
    elif operator in (Operator.IS_NULL, Operator.NOT_NULL):
        operands = []
    else:
        operands = [draw(values)]
    return type_, transform, rows, operator, operands


@given(filtered_rows(), st.booleans(), st.booleans())
def test_nothing_with_a_selected_row_is_ever_skipped(
    case: tuple[Any, ...], negated: bool, with_bounds: bool
) -> None:
    type_, transform, rows, operator, operands = case
    predicate = Predicate("v", operator, tuple(as_text(type_, operand) for operand in operands))
    condition: Filter = Not(predicate) if negated else predicate
    wanted = operator.negated if negated else operator
    metadata = table_of(type_, transform)
    pruning = Pruning(bind(condition, metadata.schema()), metadata)
    selected = [selects(wanted, operands, row) for row in rows]
    assert_nothing_selected_is_skipped(pruning, case, selected, with_bounds)


@given(filtered_rows())
def test_a_file_with_one_value_is_skipped_exactly_when_its_row_is_not_selected(
    case: tuple[Any, ...],
) -> None:
    type_, _, rows, operator, operands = case
    predicate = Predicate("v", operator, tuple(as_text(type_, operand) for operand in operands))
    metadata = table_of(type_, Transform("identity"))
    pruning = Pruning(bind(predicate, metadata.schema()), metadata)
    file = file_of(rows[:1], type_, rows[0], with_bounds=False)
    assert pruning.file_may_match(file) is selects(operator, operands, rows[0])


def in_arrow(type_: PrimitiveType, operator: Operator, values: Sequence[Any]) -> pc.Expression:
    """A predicate on `v`; lists as DuckDB hands them over."""
    scalars = [as_arrow(value, type_) for value in values]
    if operator in (Operator.IN, Operator.NOT_IN):
        listed = column.isin(pa.array([scalar.as_py() for scalar in scalars], arrow_type(type_)))
        found = pc.if_else(column.is_valid(), listed, pa.scalar(None, pa.bool_()))
        return found if operator is Operator.IN else ~found
    if operator in (Operator.STARTS_WITH, Operator.NOT_STARTS_WITH):
        found = pc.starts_with(column, values[0])
        return found if operator is Operator.STARTS_WITH else ~found
    if operator in (Operator.IS_NULL, Operator.NOT_NULL):
        return column.is_null() if operator is Operator.IS_NULL else column.is_valid()
    return COMPARED[operator](column, scalars[0])


@given(filtered_rows(), st.booleans(), st.booleans())
def test_nothing_with_a_selected_row_is_ever_skipped_for_a_condition_in_arrow(
    case: tuple[Any, ...], negated: bool, with_bounds: bool
) -> None:
    type_, transform, rows, operator, operands = case
    predicate = in_arrow(type_, operator, operands)
    metadata = table_of(type_, transform)
    row_filter = RowFilter.of(
        ~predicate if negated else predicate, arrow_schema(metadata.schema().fields)
    )
    pruning = ConditionPruning(row_filter, metadata)
    batch = pa.table({"v": [as_arrow(row, type_).as_py() for row in rows]}, row_filter.schema)
    selected = [
        batch[at : at + 1].filter(row_filter.expression).num_rows == 1 for at in range(len(rows))
    ]
    assert_nothing_selected_is_skipped(pruning, case, selected, with_bounds)


def may_match(condition: pc.Expression, type_: PrimitiveType, transform: str, *rows: Any) -> bool:
    """Whether a file of these rows, in one partition and without metrics, may match."""
    parsed = Transform.parse(transform)
    pruning = pruning_of(condition, type_, transform)
    (partition,) = {image(parsed, type_, row) for row in rows}
    manifest = manifest_of([partition], parsed.result_type(type_))
    by_file = pruning.partition_may_match(file_of(rows, type_, partition, with_bounds=False))
    assert pruning.manifest_may_match(manifest) is by_file
    return by_file


column = pc.field("v")
LISTED = pc.if_else(column.is_valid(), column.isin(["a", 'b"', "ü"]), pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("condition", "type_", "transform", "row", "other"),
    [
        (column == 7, INT, "identity", 7, 8),
        (column.is_null(), INT, "bucket[4]", None, 7),
        (column.is_valid(), INT, "bucket[4]", 7, None),
        (column == 7, INT, "bucket[1000]", 7, 8),
        ((column == 7) | (column == 9), LONG, "bucket[1000]", 9, 8),
        (column == "a(b)", STRING, "bucket[1000]", "a(b)", "a"),
        (LISTED, STRING, "bucket[1000]", 'b"', "b"),
        (LISTED, STRING, "bucket[1000]", "ü", None),
        ((column > 0) & (column == 7) & (column != 8), INT, "bucket[1000]", 7, 8),
        (column > 25, INT, "truncate[10]", 29, 19),
        (
            column < pa.scalar(Number("1.00")),
            DECIMAL,
            "truncate[50]",
            Number("0.99"),
            Number("1.49"),
        ),
        (column >= "b", STRING, "truncate[1]", "bz", "bzz"),
        (column > pa.scalar(datetime.date(2020, 3, 31)), DATE, "month", 18353, 18352),
        (column < pa.scalar(datetime.datetime(2020, 1, 1)), TIMESTAMP, "year", 0, 1600000000000000),
        (column < pa.scalar(datetime.datetime(2020, 1, 1)), TIMESTAMP, "hour", 0, 1600000000000000),
    ],
)
def test_a_condition_in_arrow_skips_partitions(
    condition: pc.Expression, type_: PrimitiveType, transform: str, row: Any, other: Any
) -> None:
    assert may_match(condition, type_, transform, row)
    assert may_match(condition, type_, transform, other) is (other == "bzz")


@pytest.mark.parametrize(
    "condition",
    [
        (column == 7) | (column > 100),
        column != 7,
        ~(column == 7),
        (column == 7) | (pc.add(column, 1) == 9),
    ],
)
def test_a_bucket_is_kept_for_values_that_are_not_named(condition: pc.Expression) -> None:
    assert may_match(condition, INT, "bucket[1000]", 8)


def pruning_of(condition: pc.Expression, type_: PrimitiveType, transform: str) -> ConditionPruning:
    metadata = table_of(type_, Transform.parse(transform))
    row_filter = RowFilter.of(condition, arrow_schema(metadata.schema().fields))
    return ConditionPruning(row_filter, metadata)


def test_nulls_beside_a_range_are_found() -> None:
    file = file_of([5, None], INT, None)
    assert pruning_of(column.is_null() | (column > 7), INT, "void").file_may_match(file)
    assert not pruning_of(column > 7, INT, "void").file_may_match(file)
    without_nulls = file_of([5, 6], INT, None)
    assert not pruning_of(column.is_null(), INT, "void").file_may_match(without_nulls)


def test_a_range_says_nothing_where_there_may_be_nan() -> None:
    pruning = pruning_of(~(column < 5.0), DOUBLE, "void")
    file = file_of([1.0, 2.0], DOUBLE, None)
    assert pruning.file_may_match(file)
    assert not pruning.file_may_match(replace(file, nan_value_counts={1: 0}))


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        (column.is_null(nan_is_null=True), float("nan")),
        (~(column < float("nan")), 1.0),
        (~(column < -1.0), float("nan")),
    ],
)
@pytest.mark.parametrize("transform", ["identity", "void"])
def test_a_condition_that_nan_meets_skips_no_file(
    condition: pc.Expression, value: float, transform: str
) -> None:
    rows = pa.table({"v": [value]})
    assert rows.filter(condition).num_rows == 1
    pruning = pruning_of(condition, DOUBLE, transform)
    is_nan = value != value
    file = file_of([value], DOUBLE, value if transform == "identity" else None, not is_nan)
    assert pruning.file_may_match(replace(file, nan_value_counts={1: int(is_nan)}))


def test_a_time_before_1970_that_was_rounded_up_is_found() -> None:
    pruning = pruning_of(column < pa.scalar(EPOCH), TIMESTAMP, "day")
    assert pruning.partition_may_match(file_of([-1], TIMESTAMP, 0, with_bounds=False))
    assert not pruning.partition_may_match(file_of([DAY_MICROS], TIMESTAMP, 1, with_bounds=False))


def image(transform: Transform, type_: PrimitiveType, value: Any) -> Any:
    if value is None or transform.name == "void":
        return None
    return "?" if transform.name == "new" else partition_value(transform, type_, value)


def table_of(type_: PrimitiveType, transform: Transform) -> TableMetadata:
    """One column `v`, partitioned by its transformed values."""
    return table_metadata(
        Schema(0, (NestedField(1, "v", type_),)),
        PartitionSpec(0, (PartitionField(1, 1000, "p", transform),)),
    )


def assert_nothing_selected_is_skipped(
    pruning: FilePruning, case: tuple[Any, ...], selected: Sequence[bool], with_bounds: bool
) -> None:
    """Files of one row each, one file of all rows, and the manifest of these."""
    type_, transform, rows, *_ = case
    partitions = [image(transform, type_, row) for row in rows]
    for row, partition, is_selected in zip(rows, partitions, selected, strict=True):
        assert pruning.file_may_match(file_of([row], type_, partition, with_bounds)) or (
            not is_selected
        )
    if any(selected):
        result_type = transform.result_type(type_) if transform.is_known else STRING
        assert pruning.manifest_may_match(manifest_of(partitions, result_type))
        assert pruning.file_may_match(file_of(rows, type_, partitions[selected.index(True)]))


def file_of(
    rows: Sequence[Any], type_: PrimitiveType, partition: Any, with_bounds: bool = True
) -> DataFile:
    present = [row for row in rows if row is not None]
    bounds = with_bounds and bool(present)
    return data_file(
        "f",
        partition=(partition,),
        record_count=len(rows),
        value_counts={1: len(rows)},
        null_value_counts={1: len(rows) - len(present)},
        lower_bounds={1: encode_value(type_, min(present))} if bounds else None,
        upper_bounds={1: encode_value(type_, max(present))} if bounds else None,
    )


def manifest_of(partitions: Sequence[Any], type_: Any) -> ManifestFile:
    present = [partition for partition in partitions if partition is not None]
    summary = FieldSummary(
        contains_null=len(present) < len(partitions),
        contains_nan=False,
        lower_bound=encode_value(type_, min(present)) if present else None,
        upper_bound=encode_value(type_, max(present)) if present else None,
    )
    return ManifestFile("m", 1, 0, ManifestContent.DATA, 1, 1, 1, partitions=(summary,))


SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", INT, required=True),
        NestedField(2, "Name", STRING),
        NestedField(3, "price", DECIMAL),
        NestedField(4, "seen", ZONED),
        NestedField(5, "ratio", DOUBLE),
        NestedField(6, "day", DATE),
        NestedField(
            7, "place", StructType((NestedField(8, "city", STRING), NestedField(9, "n", LONG)))
        ),
        NestedField(10, "tags", ListType(11, STRING, element_required=False)),
    ),
)


@pytest.mark.parametrize(
    ("first", "same"),
    [
        ("id < 2.5", "id <= 2"),
        ("id > 2.5", "id > 2"),
        ("id >= 2.5", "id > 2"),
        ("id = 2.5", "false"),
        ("id in (1, 2.5)", "id = 1"),
        ("id != 2.5", "id is not null"),
        ("id = 99999999999", "false"),
        ("price = 1.005", "false"),
        ("price < 1.005", "price <= 1.00"),
        ("NAME = 'x'", "Name = 'x'"),
        ("day = TIMESTAMP '2026-11-01 00:00:00'", "day = DATE '2026-11-01'"),
        ("day < '2026-11-01 12:00'", "day <= '2026-11-01'"),
        ("seen = '2026-11-01 01:00:00+01:00'", "seen = '2026-11-01'"),
        ("not (id = 1 or Name is null)", "id != 1 and Name is not null"),
        ("not (id between 1 and 3)", "id < 1 or id > 3"),
        ("id is not nan", "id is not null"),
        ("true and id = 1 or false", "id = 1"),
        ("place.city like 'A%'", "Place.City like 'A%'"),
    ],
)
def test_filters_that_mean_the_same_are_bound_the_same(first: str, same: str) -> None:
    assert bind(parse_filter(first), SCHEMA) == bind(parse_filter(same), SCHEMA)


def test_constants_are_bound_to_all_and_nothing() -> None:
    assert bind(parse_filter("true"), SCHEMA) == ALWAYS
    assert bind(parse_filter("not true"), SCHEMA) == NEVER
    assert bind(parse_filter("id = 2.5 and Name = 'x'"), SCHEMA) == NEVER


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("nane = 'x'", "the columns are id, Name, price"),
        ("id = 'x'", "column id of type int with a string .*value=x"),
        ("Name = 5", "column Name of type string with a number"),
        ("id = DATE '2026-11-01'", "column id of type int with a date"),
        ("day = '2026-02-30'", "column day of type date with a string"),
        ("day = 5", "column day of type date with a number"),
        ("id like '1%'", "LIKE compares strings"),
        ("place is null", "whole struct"),
        ("tags.element = 'x'", "list or map"),
    ],
)
def test_a_filter_that_does_not_fit_the_table_is_refused(sql: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        bind(parse_filter(sql), SCHEMA)


def test_a_time_without_a_zone_refuses_one() -> None:
    schema = Schema(0, (NestedField(1, "at", TIMESTAMP),))
    with pytest.raises(ConfigError, match="column at of type timestamp"):
        bind(parse_filter("at = '2026-11-01 01:00:00Z'"), schema)


def test_nan_satisfies_no_comparison_and_is_found() -> None:
    metadata = table_metadata(SCHEMA, PartitionSpec(0))
    only_nan = data_file(
        "f", record_count=2, value_counts={5: 2}, null_value_counts={5: 0},
        nan_value_counts={5: 2},
    )  # fmt: skip
    answers = {
        sql: Pruning(bind(parse_filter(sql), SCHEMA), metadata).file_may_match(only_nan)
        for sql in ("ratio > 1", "ratio is nan", "ratio is not nan", "ratio is null")
    }
    assert answers == {
        "ratio > 1": False,
        "ratio is nan": True,
        "ratio is not nan": False,
        "ratio is null": False,
    }


def test_what_a_writer_left_out_keeps_the_file() -> None:
    metadata = table_metadata(SCHEMA, PartitionSpec(0))
    bare = data_file("f", record_count=2)
    assert bare.content is FileContent.DATA
    for sql in ("id > 1", "Name is null", "Name is not null", "ratio is nan", "Name like 'x%'"):
        assert Pruning(bind(parse_filter(sql), SCHEMA), metadata).file_may_match(bare)


def test_a_file_before_1970_is_kept_under_the_partition_an_early_writer_gave_it() -> None:
    spec = PartitionSpec(0, (PartitionField(4, 1000, "p", Transform("day")),))
    metadata = table_metadata(SCHEMA, spec)
    rounded_up = data_file("f", partition=(0,), record_count=1)
    rounded_down = data_file("f", partition=(-1,), record_count=1)
    for sql in ("seen = '1969-12-31 12:00:00'", "seen < '1969-12-31 13:00:00'"):
        pruning = Pruning(bind(parse_filter(sql), SCHEMA), metadata)
        assert pruning.partition_may_match(rounded_up)
        assert pruning.partition_may_match(rounded_down)
    later = Pruning(bind(parse_filter("seen > '1970-01-02 00:00:00'"), SCHEMA), metadata)
    assert not later.partition_may_match(rounded_up)
