"""Which deletes apply to which data file: sequence numbers, partitions, paths, bounds."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tideline.errors import CorruptTableError
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import (
    IDENTITY,
    PartitionField,
    PartitionSpec,
    Transform,
)
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.scan.delete_index import DELETE_PATH_FIELD_ID, DeleteIndex, FileDeletes
from tideline.testing.iceberg_values import data_file, live_entry, table_metadata

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", Primitive("long")),
        NestedField(2, "region", Primitive("string")),
        NestedField(3, "ratio", Primitive("double")),
    ),
)
BY_REGION = PartitionSpec(0, (PartitionField(2, 1000, "region", IDENTITY),))
UNPARTITIONED = PartitionSpec(1)
VOID = PartitionSpec(2, (PartitionField(2, 1000, "region", Transform("void")),))
TABLE = table_metadata(SCHEMA, BY_REGION, UNPARTITIONED, VOID)


def positions(path: str, **given: Any) -> DataFile:
    return data_file(
        path, **{"content": FileContent.POSITION_DELETES, "partition": ("a",), **given}
    )


def equality(path: str, **given: Any) -> DataFile:
    defaults = {"partition": ("a",), "equality_ids": (1,)}
    return data_file(path, **{"content": FileContent.EQUALITY_DELETES, **defaults, **given})


def vector(path: str, of: str, **given: Any) -> DataFile:
    return positions(path, file_format="PUFFIN", referenced_data_file=of, **given)


def applied(data: DataFile, number: int, *deletes: tuple[DataFile, int]) -> list[str]:
    found = deletes_of(data, number, *deletes)
    vectors = (found.vector,) if found.vector else ()
    return [item.file_path for item in (*found.position, *found.equality, *vectors)]


def deletes_of(data: DataFile, number: int, *deletes: tuple[DataFile, int]) -> FileDeletes:
    index = DeleteIndex((live_entry(*delete_file) for delete_file in deletes), TABLE)
    return index.deletes_for(data, number)


DATA = data_file("data", partition=("a",))


def test_position_deletes_reach_files_of_their_own_commit_and_equality_deletes_do_not() -> None:
    deletes = (
        (
            positions(
                "p",
            ),
            5,
        ),
        (equality("e"), 5),
    )
    assert applied(DATA, 4, *deletes) == ["p", "e"]
    assert applied(DATA, 5, *deletes) == ["p"]
    assert applied(DATA, 6, *deletes) == []


def test_deletes_come_in_the_order_of_their_sequence_numbers() -> None:
    deletes = (
        (equality("e7"), 7),
        (equality("e5"), 5),
        (equality("e6", spec_id=1, partition=()), 6),
    )
    assert applied(DATA, 4, *deletes) == ["e5", "e6", "e7"]
    assert applied(DATA, 6, *deletes) == ["e7"]


def test_deletes_stay_in_their_partition_and_spec() -> None:
    elsewhere = (positions("p", partition=("b",)), 5), (equality("e", partition=("b",)), 5)
    assert applied(DATA, 4, *elsewhere) == []
    other_spec = data_file("data", spec_id=1, partition=())
    assert applied(other_spec, 4, (positions("p"), 5), (equality("e"), 5)) == []
    null = data_file("data", partition=(None,))
    assert applied(null, 4, (positions("p", partition=(None,)), 5)) == ["p"]


@pytest.mark.parametrize("spec", [UNPARTITIONED, VOID])
def test_equality_deletes_of_an_unpartitioned_spec_reach_everything(spec: PartitionSpec) -> None:
    everywhere = {"spec_id": spec.spec_id, "partition": (None,) * len(spec.fields)}
    assert applied(DATA, 4, (equality("e", **everywhere), 5)) == ["e"]
    assert applied(DATA, 4, (positions("p", **everywhere), 5)) == []


def test_nan_is_a_partition_and_minus_zero_another_than_zero() -> None:
    nan = data_file("data", partition=(float("nan"),))
    other_nan = struct.unpack(">d", struct.pack(">d", float("nan")))[0]
    assert applied(nan, 4, (equality("e", partition=(other_nan,)), 5)) == ["e"]
    zero = data_file("data", partition=(0.0,))
    assert applied(zero, 4, (equality("e", partition=(-0.0,)), 5)) == []


def test_a_delete_file_that_names_one_data_file_reaches_no_other() -> None:
    by_reference = positions("r", referenced_data_file="data")
    path = {DELETE_PATH_FIELD_ID: b"data"}
    by_bounds = positions("b", lower_bounds=path, upper_bounds=path)
    deletes = ((by_bounds, 6), (by_reference, 5))
    assert applied(DATA, 5, *deletes) == ["r", "b"]
    assert applied(data_file("other", partition=("a",)), 4, *deletes) == []


def test_a_delete_file_whose_paths_end_before_the_data_file_is_left_out() -> None:
    def between(lower: bytes, upper: bytes) -> DataFile:
        bounds = {DELETE_PATH_FIELD_ID: lower}, {DELETE_PATH_FIELD_ID: upper}
        return positions("p", lower_bounds=bounds[0], upper_bounds=bounds[1])

    assert applied(DATA, 4, (between(b"a", b"c"), 5)) == []
    assert applied(DATA, 4, (between(b"e", b"f"), 5)) == []
    assert applied(DATA, 4, (between(b"d", b"e"), 5)) == ["p"]


def test_a_deletion_vector_stands_for_all_position_deletes_of_its_file() -> None:
    deletes = ((vector("dv", "data"), 6), (positions("p"), 5), (equality("e"), 5))
    assert applied(DATA, 4, *deletes) == ["e", "dv"]
    assert applied(data_file("other", partition=("a",)), 4, *deletes) == ["p", "e"]


@pytest.mark.parametrize(
    ("deletes", "message"),
    [
        ([(vector("one", "data"), 5), (vector("two", "data"), 6)], "two deletion vectors"),
        ([(vector("one", "data"), 3)], "older than the data file"),
        ([(vector("one", "data", partition=("b",)), 5)], "different partitions"),
        ([(positions("p", partition=("b",), referenced_data_file="data"), 5)], "different part"),
        ([(positions("p", file_format="PUFFIN"), 5)], "names no data file"),
    ],
)
def test_deletes_that_contradict_the_data_file_are_refused(
    deletes: list[tuple[DataFile, int]], message: str
) -> None:
    with pytest.raises(CorruptTableError, match=message):
        deletes_of(DATA, 4, *deletes)


def longs(low: int, high: int, nulls: int | None = 0) -> dict[str, Any]:
    return {
        "record_count": 10,
        "value_counts": {1: 10},
        "null_value_counts": None if nulls is None else {1: nulls},
        "lower_bounds": {1: struct.pack("<q", low)},
        "upper_bounds": {1: struct.pack("<q", high)},
    }


@pytest.mark.parametrize(
    ("data", "delete", "applies"),
    [
        (longs(1, 5), longs(5, 9), True),
        (longs(1, 5), longs(6, 9), False),
        (longs(6, 9), longs(1, 5), False),
        (longs(1, 5, nulls=1), longs(6, 9, nulls=1), True),
        (longs(1, 5, nulls=1), longs(6, 9), False),
        (longs(1, 5, nulls=None), longs(6, 9, nulls=None), True),
        ({}, longs(6, 9), True),
        (longs(1, 5), {}, True),
        ({"value_counts": {1: 3}, "null_value_counts": {1: 3}}, longs(1, 9), False),
        ({"value_counts": {1: 3}, "null_value_counts": {1: 3}}, longs(1, 9, nulls=2), True),
        (longs(1, 9), {"value_counts": {1: 3}, "null_value_counts": {1: 3}}, False),
    ],
)
def test_bounds_and_nulls_can_show_that_equality_deletes_do_not_concern_a_file(
    data: dict[str, Any], delete: dict[str, Any], applies: bool
) -> None:
    found = applied(data_file("data", partition=("a",), **data), 4, (equality("e", **delete), 5))
    assert found == (["e"] if applies else [])


def test_nan_lies_outside_all_bounds_so_it_keeps_a_delete_file() -> None:
    def doubles(low: float, high: float, **given: Any) -> dict[str, Any]:
        bounds = {3: struct.pack("<d", low)}, {3: struct.pack("<d", high)}
        counts = {"value_counts": {3: 5}, "null_value_counts": {3: 0}}
        return {"lower_bounds": bounds[0], "upper_bounds": bounds[1], **counts, **given}

    delete = equality("e", equality_ids=(3,), **doubles(5, 9))
    some_nan = data_file("data", partition=("a",), **doubles(1, 2))
    no_nan = data_file("data", partition=("a",), **doubles(1, 2, nan_value_counts={3: 0}))
    assert applied(some_nan, 4, (delete, 5)) == ["e"]
    assert applied(no_nan, 4, (delete, 5)) == []


def test_only_equality_deletes_ask_for_the_metrics_of_data_files() -> None:
    assert not DeleteIndex([live_entry(positions("p"), 5)], TABLE).needs_data_metrics
    assert DeleteIndex([live_entry(equality("e"), 5)], TABLE).needs_data_metrics
