"""Avro records of several writers: each ends where its own bytes do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tideline.errors import CorruptTableError
from tideline.formats.avro import decode_foreign_records, decode_records, encode_records


def _schema(**fields: Any) -> str:
    content = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "shop.Order", "fields": content})


ORDER = _schema(id="long", note="string")


def test_records_are_those_that_were_written() -> None:
    records = [{"id": number, "note": "x" * number} for number in range(50)]
    assert decode_foreign_records(ORDER, encode_records(ORDER, records)) == records
    assert decode_foreign_records(ORDER, []) == []


def test_bytes_that_move_from_one_record_to_the_next_are_seen() -> None:
    first, second = encode_records(ORDER, [{"id": 1, "note": "ab"}, {"id": 2, "note": "c"}])
    moved = [first + second[:1], second[1:]]
    assert len(decode_records(ORDER, moved)) == 2
    with pytest.raises(CorruptTableError, match="do not fit their schema"):
        decode_foreign_records(ORDER, moved)


@pytest.mark.parametrize("change", [b"", b"\0"])
def test_a_record_that_is_too_short_or_too_long_is_seen(change: bytes) -> None:
    (datum,) = encode_records(ORDER, [{"id": 1, "note": "ab"}])
    changed = datum + change if change else datum[:-1]
    with pytest.raises(CorruptTableError):
        decode_foreign_records(ORDER, [changed])


def test_types_with_names_are_found_in_the_same_place() -> None:
    address = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
    schema = _schema(ship=address, bill="Address", tideline="shop.Address")
    record = {name: {"city": name} for name in ("ship", "bill", "tideline")}
    assert decode_foreign_records(schema, encode_records(schema, [record])) == [record]


def test_a_field_may_have_the_name_of_the_seal() -> None:
    schema, record = _schema(seal="long", seal_="string"), {"seal": 7, "seal_": "x"}
    (datum,) = encode_records(schema, [record])
    assert decode_foreign_records(schema, [datum, datum]) == [record, record]
    with pytest.raises(CorruptTableError):
        decode_foreign_records(schema, [datum + datum[:1], datum[1:]])


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(CorruptTableError, match="not the Avro schema of a record"):
        decode_foreign_records('"long"', [b"\2"])
