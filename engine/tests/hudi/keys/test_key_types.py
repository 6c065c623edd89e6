"""Which types a write may give key and partition columns: those with the texts of the table's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.hudi.keys.key_generator import KeyGenerator, PartitionField
from tideline.hudi.keys.key_types import check_key_types
from tideline.hudi.keys.row_keys import record_keys
from tideline.hudi.table.schema import evolve

INT, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
TEXT, DAY, AT = pa.string(), pa.date32(), pa.timestamp("us", "UTC")
CENTS, MORE_CENTS = pa.decimal128(10, 2), pa.decimal128(12, 4)
ID = KeyGenerator(("id",), (), qualified=False)
KEYS = KeyGenerator(("id",), (PartitionField("at.day"),), qualified=False)


def check(
    stored: pa.DataType,
    given: pa.DataType,
    *,
    replaces_all: bool = False,
    deletes: bool = False,
    is_partition: bool = False,
) -> None:
    def schema(kind: pa.DataType) -> pa.Schema:
        if is_partition:
            return pa.schema([("ID", TEXT), ("at", pa.struct([("Day", kind)]))])
        return pa.schema([("ID", kind), ("at", pa.struct([("day", TEXT)]))])

    check_key_types(schema(stored), schema(given), KEYS, replaces_all=replaces_all, deletes=deletes)


@pytest.mark.parametrize("is_partition", [False, True])
@pytest.mark.parametrize(
    ("stored", "given"),
    [(INT, LONG), (LONG, INT), (LONG, pa.uint8()), (DOUBLE, INT), (DOUBLE, FLOAT), (TEXT, TEXT)],
)
def test_types_with_the_texts_of_the_table_are_taken(
    stored: pa.DataType, given: pa.DataType, is_partition: bool
) -> None:
    for deletes in (False, True):
        check(stored, given, deletes=deletes, is_partition=is_partition)


@pytest.mark.parametrize("is_partition", [False, True])
@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (INT, FLOAT),
        (INT, DOUBLE),
        (LONG, FLOAT),
        (LONG, DOUBLE),
        (FLOAT, DOUBLE),
        (FLOAT, INT),
        (FLOAT, LONG),
        (DOUBLE, LONG),
    ],
)
def test_others_are_refused_by_name(
    stored: pa.DataType, given: pa.DataType, is_partition: bool
) -> None:
    role = "column at.day is part of the partition path" if is_partition else "record key"
    for deletes in (False, True):
        with pytest.raises(InvalidDataError, match=role) as refused:
            check(stored, given, deletes=deletes, is_partition=is_partition)
        assert refused.value.value == f"{stored} and {given}"


@pytest.mark.parametrize(
    ("stored", "given"),
    [(LONG, CENTS), (CENTS, LONG), (CENTS, MORE_CENTS), (AT, DAY), (DAY, LONG), (pa.bool_(), INT)],
)
def test_keys_to_delete_are_of_types_with_the_same_texts(
    stored: pa.DataType, given: pa.DataType
) -> None:
    with pytest.raises(InvalidDataError, match="record key"):
        check(stored, given, deletes=True)


def test_texts_of_keys_to_delete_are_taken_as_they_are() -> None:
    for kind in (INT, LONG, DAY, CENTS):
        check(kind, TEXT, deletes=True)
    check(MORE_CENTS, CENTS, deletes=True)
    check(pa.binary(), pa.binary(4), deletes=True)


def test_a_write_that_replaces_all_rows_may_change_any_type() -> None:
    check(LONG, DOUBLE, replaces_all=True)


@pytest.mark.parametrize("stored", [INT, LONG, DOUBLE, FLOAT])
@pytest.mark.parametrize("given", [INT, LONG, DOUBLE, FLOAT])
def test_a_value_that_is_taken_keeps_its_text(stored: pa.DataType, given: pa.DataType) -> None:
    """Whole numbers in every decade and at the limits, as they were and as written next."""
    bits = 24 if FLOAT in (stored, given) else 31
    numbers = [sign * 10**n + step for n in range(8) for sign in (1, -1) for step in (-1, 0, 1)]
    numbers += [0, 2**bits - 1, 1 - 2**bits]
    kept = pa.array([number for number in numbers if abs(number) < 2**bits], LONG)
    before = pa.record_batch({"id": kept.cast(stored)})
    incoming = pa.record_batch({"id": kept.cast(given)})
    try:
        check_key_types(before.schema, incoming.schema, ID)
    except InvalidDataError:
        return
    written = incoming.cast(evolve(before.schema, incoming.schema).schema)
    assert record_keys(written, ID).equals(record_keys(before, ID))
