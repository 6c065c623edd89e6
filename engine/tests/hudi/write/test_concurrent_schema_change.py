"""Which schemas a write may continue with, and which one its commit says."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.hudi.table.schema import arrow_to_avro, avro_to_arrow
from tideline.hudi.write.concurrent_schema_change import agree_on_schema, hides, is_current

BASE = pa.schema([("id", pa.string()), ("n", pa.int32())])
WITH_NOTE = pa.schema([*BASE, ("note", pa.string())])
WITH_FLAG = pa.schema([*BASE, ("flag", pa.bool_())])
WIDER = pa.schema([("id", pa.string()), ("n", pa.int64())])


def avro(schema: pa.Schema, name: str = "t_record") -> str:
    return json.dumps(arrow_to_avro(schema, name=name, namespace="hoodie.t"))


def names(schema_json: str) -> list[str]:
    return list(avro_to_arrow(schema_json).names)


@pytest.mark.parametrize(
    ("table", "written", "expected"),
    [
        (None, BASE, True),
        (BASE, BASE, True),
        (BASE, WITH_NOTE, True),
        (BASE, WIDER, True),
        (WITH_NOTE, BASE, False),
        (WIDER, BASE, False),
        (pa.schema([("id", pa.string()), ("n", pa.string())]), BASE, False),
    ],
    ids=["no table", "same", "adds", "widens", "lacks", "narrower", "other type"],
)
def test_a_write_goes_on_when_it_keeps_every_column(
    table: pa.Schema | None, written: pa.Schema, expected: bool
) -> None:
    assert is_current(table, written) is expected


def test_types_of_other_spelling_are_the_same() -> None:
    table = pa.schema([
        ("id", pa.string()),
        ("old", pa.timestamp("ms", tz="UTC")),
        ("items", pa.list_(pa.field("element", pa.struct([("a", pa.int32())])))),
    ])  # fmt: skip
    written = pa.schema([
        ("id", pa.large_string()),
        ("old", pa.timestamp("ms", tz="UTC")),
        ("items", pa.large_list(pa.struct([("a", pa.int16())]))),
    ])  # fmt: skip
    assert is_current(table, written)


def test_ours_is_said_when_no_other_writer_changed_the_table() -> None:
    before = avro(BASE, "written_by_hudi")
    assert agree_on_schema(before, before, avro(WITH_NOTE), table="t") == avro(WITH_NOTE)
    assert agree_on_schema(None, None, avro(BASE), table="t") == avro(BASE)
    assert agree_on_schema(avro(BASE), avro(BASE, "x"), avro(BASE), table="t") == avro(BASE)


def test_columns_of_both_are_said_when_both_added_some() -> None:
    said = agree_on_schema(avro(BASE), avro(WITH_NOTE), avro(WITH_FLAG), table="t")
    assert names(said) == ["id", "n", "note", "flag"]


def test_the_wider_type_is_said() -> None:
    for now, mine in ((WIDER, BASE), (BASE, WIDER)):
        said = agree_on_schema("{}", avro(now), avro(mine), table="t")
        assert avro_to_arrow(said).field("n").type == pa.int64()


def test_theirs_is_said_when_the_write_has_none() -> None:
    assert agree_on_schema(avro(BASE), avro(WITH_NOTE), "", table="t") == avro(WITH_NOTE)


def test_one_column_in_two_types_is_refused() -> None:
    other = pa.schema([*BASE, ("note", pa.bool_())])
    with pytest.raises(InvalidDataError, match="note"):
        agree_on_schema(avro(BASE), avro(WITH_NOTE), avro(other), table="t")


def test_what_a_later_commit_hides() -> None:
    assert hides(avro(BASE), avro(WITH_NOTE))
    assert not hides(avro(BASE, "x"), avro(BASE))
    assert not hides(None, avro(BASE))
