"""Values that `truncate` cannot cut within their type: Java wraps numbers around, and refuses
decimals with too many digits. Rows are found all the same."""

from __future__ import annotations

import operator as python_operator
import uuid
from decimal import Decimal as Number

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tideline
from tideline.errors import InvalidDataError
from tideline.formats.filter import Literal, LiteralKind, Operator, Predicate
from tideline.iceberg.data.transforms import transformed
from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.scan.bound_filter import bind
from tideline.iceberg.scan.partition_value import partition_value
from tideline.iceberg.scan.pruning import Pruning
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_values import data_file, table_metadata

LEAST = {"int": -(2**31), "long": -(2**63)}
WIDE = 2**30 + 5
COMPARED = {
    Operator.LESS: python_operator.lt,
    Operator.LESS_OR_EQUAL: python_operator.le,
    Operator.GREATER: python_operator.gt,
    Operator.GREATER_OR_EQUAL: python_operator.ge,
    Operator.EQUAL: python_operator.eq,
    Operator.NOT_EQUAL: python_operator.ne,
}


@pytest.mark.parametrize(
    ("kind", "width", "value", "cut"),
    [
        # What Iceberg 1.12 on Spark puts into manifests.
        ("int", 10, -(2**31), 2147483646),
        ("int", 10, -(2**31) + 1, 2147483646),
        ("int", 10, -(2**31) + 9, -2147483640),
        ("int", 10, 2**31 - 1, 2147483640),
        ("long", 10, -(2**63), 2**63 - 2),
        ("long", 10, -(2**63) + 9, -(2**63) + 8),
        ("int", WIDE, 2**30 + 1, 2147483638),
        ("int", WIDE, 2**30 + 6, 1073741829),
        ("int", WIDE, -(2**30) - 7, 2147483638),
        ("int", WIDE, -5, -1073741829),
        ("long", WIDE, -5, -1073741829),
    ],
)
def test_numbers_wrap_around_as_java_has_them(kind: str, width: int, value: int, cut: int) -> None:
    transform = Transform("truncate", width)
    assert partition_value(transform, Primitive(kind), value) == cut
    column = pa.array([value, None], pa.int32() if kind == "int" else pa.int64())
    assert transformed(transform, column).to_pylist() == [cut, None]


@st.composite
def numbers_near_the_ends(draw: st.DrawFn) -> tuple[str, str, int, int, int]:
    """The type of a column when a file was placed and now, a width, a row and an operand."""
    kind, now = draw(st.sampled_from([("int", "int"), ("long", "long"), ("int", "long")]))
    width = draw(st.sampled_from([1, 7, 10, 1000, 2**30, WIDE, 2**31 - 1]))
    values = [LEAST[kind], LEAST[kind] + 2 * width, -1, 0, width, -LEAST[kind] - 1]
    near = st.sampled_from(values).flatmap(lambda value: st.integers(value - 12, value + 12))
    row = draw(near.filter(lambda value: LEAST[kind] <= value < -LEAST[kind]))
    return kind, now, width, row, draw(near)


@settings(max_examples=60, deadline=None)
@given(numbers_near_the_ends(), st.sampled_from(list(COMPARED)))
def test_no_row_near_the_least_number_is_skipped(
    case: tuple[str, str, int, int, int], operator: Operator
) -> None:
    kind, now, width, row, operand = case
    transform = Transform("truncate", width)
    metadata = table_metadata(
        Schema(0, (NestedField(1, "v", Primitive(now)),)),
        PartitionSpec(0, (PartitionField(1, 1000, "p", transform),)),
    )
    literal = Literal(LiteralKind.NUMBER, str(operand))
    pruning = Pruning(bind(Predicate("v", operator, (literal,)), metadata.schema()), metadata)
    partition = partition_value(transform, Primitive(kind), row)
    may = pruning.partition_may_match(data_file("f", partition=(partition,)))
    assert may or not COMPARED[operator](row, operand)


def created(kind: pa.DataType, partition_by: str) -> IcebergLakeTable:
    columns = pa.schema([pa.field("v", kind), pa.field("n", pa.int32())])
    return tideline.create_iceberg(
        f"memory://{uuid.uuid4().hex}/table", columns, partition_by=partition_by
    )


@pytest.mark.parametrize(("kind", "least"), [(pa.int32(), -(2**31)), (pa.int64(), -(2**63))])
@pytest.mark.parametrize("width", [10, WIDE])
def test_rows_near_the_least_number_are_read_and_changed(
    kind: pa.DataType, least: int, width: int
) -> None:
    table = created(kind, f"truncate({width}, v)")
    values = [least, least + 1, least + 9, -5, 0, width - 1, -least - 1]
    table.write([{"v": value, "n": 0} for value in values])
    for condition, wanted in (
        (f"v = {least}", 1),
        (f"v <= {least + 1}", 2),
        (f"v < {least + 9}", 2),
        ("v < 0", 4),
        ("v > 5", 2),
        (f"v > {least}", 6),
    ):
        assert table.count(condition) == wanted, condition
        planned = table.plan_rewrite(where=condition, options={"rewrite-all": "true"})
        assert sum(group.rows for group in planned.groups) >= wanted, condition
    assert table.write([{"v": least, "n": 1}], "upsert", key="v").rows_updated == 1
    assert table.delete(f"v <= {least + 1}").rows_deleted == 2
    assert sorted(table.to_arrow()["v"].to_pylist()) == sorted(values[2:])


def test_files_are_still_left_out() -> None:
    properties = {"write.metadata.metrics.default": "none"}
    columns = pa.schema([pa.field("v", pa.int32())])
    table = tideline.create_iceberg(
        f"memory://{uuid.uuid4().hex}/table",
        columns,
        partition_by="truncate(10, v)",
        properties=properties,
    )
    table.write([{"v": value} for value in (-(2**31), -1, 5, 25)])
    for condition, count in ((f"v = {-(2**31)}", 1), ("v < -5", 2), ("v < -20", 1), ("v > 10", 2)):
        planned = table.plan_rewrite(where=condition, options={"rewrite-all": "true"})
        assert sum(len(group.tasks) for group in planned.groups) == count, condition


def test_a_decimal_that_is_cut_beyond_its_digits_is_refused_by_name() -> None:
    table = created(pa.decimal128(4, 2), "truncate(10000, v)")
    table.write([{"v": Number("99.99"), "n": 0}, {"v": None, "n": 0}])
    before = table.refresh().metadata
    bad = [{"v": Number("9.00"), "n": 1}, {"v": Number("-0.01"), "n": 1}]
    for operation in ("append", "overwrite", "overwrite_partitions", "upsert"):
        key = "v" if operation == "upsert" else ()
        with pytest.raises(InvalidDataError, match=r"v_trunc.* more digits than decimal") as caught:
            table.write(bad, operation, key=key)
        assert caught.value.table == table.uri
        assert str(caught.value.value) == "-100.00"
    with pytest.raises(InvalidDataError, match="more digits"):
        table.update("v > 0", {"v": Number("-1.00")})
    assert table.refresh().metadata == before
    assert len(list(table.table.io.list(f"{table.uri}/data"))) == 2
    assert table.count("v > -99.99") == 1
    assert table.write([{"v": Number("-1.00")}], "delete", key="v").rows_deleted == 0


def test_a_key_is_found_in_a_file_from_before_its_column_was_widened() -> None:
    table = created(pa.int32(), "truncate(10, v)")
    values = [-(2**31), -(2**31) + 9, 7]
    table.write([{"v": value, "n": 0} for value in values])
    table.alter().change_type("v", "long").commit()
    table.refresh()
    for value in values:
        assert table.write([{"v": value, "n": 1}], "upsert", key="v").rows_updated == 1
        assert table.count(f"v = {value}") == 1
    assert table.count("v < -2147483640") == 1
    assert table.count() == 3
