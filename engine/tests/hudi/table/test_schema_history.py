"""Versions of a schema as Hudi writes them, and where columns are found by their ids."""

from __future__ import annotations

import json
from uuid import uuid4

import pyarrow as pa
import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.table.internal_schema import (
    InternalList,
    InternalMap,
    InternalSchema,
    InternalStruct,
    parse_history,
    print_history,
)
from tideline.hudi.table.schema_history import SchemaHistory, find_versions
from tideline.hudi.table.schema_reconciliation import reconciled
from tideline.hudi.table.stored_names import StoredName, names_in_file, renamed_array
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.memory.store import MemoryStore

FIRST, RENAMED, READDED = (f"2026112218210{number}000" for number in (1, 2, 3))

# Hudi 1.2.0 wrote this: a struct, a list of structs and a map of structs below one id each.
HUDIS = (
    b'{"schemas":[{"max_column_id":16,"version_id":20261122182102000,"type":"record","fields":['
    b'{"id":0,"name":"_hoodie_commit_time","optional":true,"type":"string","doc":""},'
    b'{"id":5,"name":"id","optional":true,"type":"string"},'
    b'{"id":6,"name":"a2","optional":true,"type":"long"},'
    b'{"id":8,"name":"s","optional":true,"type":{"type":"record","fields":['
    b'{"id":14,"name":"x2","optional":true,"type":"int"},'
    b'{"id":16,"name":"z","optional":true,"type":"string"}]}},'
    b'{"id":9,"name":"l","optional":true,"type":{"type":"array","element_id":11,"element":'
    b'{"type":"record","fields":[{"id":12,"name":"p","optional":true,"type":"int"}]},'
    b'"element_optional":true}},'
    b'{"id":10,"name":"m","optional":true,"type":{"type":"map","key_id":13,"key":"string",'
    b'"value_id":15,"value":"decimal_fixed(10, 2)[5]","value_optional":false}}]},'
    b'{"max_column_id":15,"version_id":0,"type":"record","fields":['
    b'{"id":5,"name":"id","optional":true,"type":"string"},'
    b'{"id":6,"name":"a","optional":true,"type":"int"},'
    b'{"id":7,"name":"b","optional":true,"type":"string"},'
    b'{"id":8,"name":"s","optional":true,"type":{"type":"record","fields":['
    b'{"id":14,"name":"x","optional":true,"type":"int"}]}}]}]}'
)


def version(number: int | str, **columns: int | tuple[int, dict[str, int]]) -> InternalSchema:
    """A version with an id for each column, and for the fields of a struct."""
    fields = []
    for name, given in columns.items():
        number_of, inner = given if isinstance(given, tuple) else (given, None)
        kind = "string" if inner is None else {"type": "record", "fields": [
            {"id": entry, "name": child, "optional": True, "type": "int"}
            for child, entry in inner.items()]}  # fmt: skip
        fields.append({"id": number_of, "name": name, "optional": True, "type": kind})
    content = {"version_id": int(number), "type": "record", "fields": fields}
    return InternalSchema.of_json_object(content)


def text(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def test_hudis_json_is_read_and_written_byte_for_byte() -> None:
    versions = parse_history(HUDIS, path="h")
    assert [item.version for item in versions] == [0, 20261122182102000]
    assert print_history(versions) == HUDIS
    newest = versions[1]
    assert newest.max_column_id == 16
    kinds = {item.name: item.type for item in newest.root.fields}
    assert isinstance(kinds["s"], InternalStruct)
    assert isinstance(kinds["l"], InternalList)
    assert isinstance(kinds["m"], InternalMap)
    assert kinds["a2"] == "long"
    assert InternalSchema.parse(newest.to_json()) == newest


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"schemas":[{"type":"record"}]}', HUDIS[:300], HUDIS.replace(b"array", b"set")],
)
def test_what_is_no_history_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptTableError) as caught:
        parse_history(body, path="here")
    assert caught.value.path == "here"


def test_a_renamed_column_is_found_by_its_id() -> None:
    names = names_in_file(version(0, id=1, a=2), version(1, id=1, a2=2))
    assert names is not None
    assert names.of("a2") == StoredName("a")
    assert names.as_stored(text("id", "a2")).names == ["id", "a"]
    rows = pa.record_batch({"id": ["k"], "a": ["old"]})
    assert names.renamed(rows).to_pydict() == {"id": ["k"], "a2": ["old"]}


def test_names_may_change_places() -> None:
    names = names_in_file(version(0, a=1, b=2), version(1, b=1, a=2))
    assert names is not None
    rows = pa.record_batch({"a": ["one"], "b": ["two"]})
    assert names.renamed(rows).to_pydict() == {"b": ["one"], "a": ["two"]}


def test_a_column_that_was_dropped_and_added_again_has_no_old_values() -> None:
    names = names_in_file(version(0, id=1, b=2), version(2, id=1, b=3))
    assert names is not None
    assert names.of("b").name is None
    assert not set(names.as_stored(text("b")).names) & {"b"}
    assert names.renamed(pa.record_batch({"id": ["k"], "b": ["old"]})).to_pydict() == {"id": ["k"]}


def test_what_no_version_knows_keeps_its_name() -> None:
    names = names_in_file(version(0, id=1, a=2), version(1, id=1, a2=2, added=3))
    assert names is not None
    assert names.of("added") == StoredName("added")
    assert names.of("unheard_of") == StoredName("unheard_of")


def test_files_of_the_present_version_need_no_look() -> None:
    assert names_in_file(version(0, id=1, a=2, b=3), version(1, id=1, a=2)) is None


def test_fields_inside_structs_lists_and_maps_are_found_too() -> None:
    stored, read_as = ({"x": 14, "y": 15}, {"x2": 14, "y": 16})
    names = names_in_file(version(0, s=(8, stored)), version(1, s=(8, read_as)))
    assert names is not None
    struct = pa.array([{"x": 1, "y": 2}, None], pa.struct([("x", pa.int32()), ("y", pa.int32())]))
    renamed = names.renamed(pa.record_batch({"s": struct})).column(0)
    assert renamed.to_pylist() == [{"x2": 1}, None]
    inner = names.of("s").inner
    items = pa.array([[{"x": 1, "y": 2}], None, []], pa.list_(struct.type))
    assert renamed_array(items, inner).to_pylist() == [[{"x2": 1}], None, []]
    entries = pa.array([[("k", {"x": 1, "y": 2})], None], pa.map_(pa.string(), struct.type))
    assert renamed_array(entries, inner).to_pylist() == [[("k", {"x2": 1})], None]


def test_a_struct_none_of_whose_fields_a_file_has_keeps_its_length() -> None:
    names = names_in_file(version(0, s=(8, {"x": 14})), version(1, s=(8, {"x": 15})))
    assert names is not None
    struct = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    renamed = names.renamed(pa.record_batch({"s": struct})).column(0)
    assert len(renamed) == 2
    assert renamed.is_valid().to_pylist() == [True, False]


def test_a_file_has_the_version_in_force_at_its_instant() -> None:
    versions = (version(0, a=1), version(RENAMED, a2=1), version(READDED, a2=1, a=2))
    history = SchemaHistory(versions, versions[-1])
    assert history.at(InstantTime(FIRST)) == versions[0]
    assert history.at(InstantTime(RENAMED)) == versions[1]
    assert history.at(InstantTime("20261122182102999")) == versions[1]
    assert history.at(InstantTime("20990101000000000")) == versions[2]
    # The history began with a version of its own: before it names were no others.
    later = SchemaHistory(versions[1:], versions[-1])
    assert later.at(InstantTime(FIRST)) == versions[1]


def test_columns_that_were_not_settled_all_along_are_named() -> None:
    versions = (version(0, id=1, ts=2), version(1, id=1, t=2, s=(3, {"x": 4})))
    history = SchemaHistory(versions, versions[-1])
    assert history.unsettled(["id"]) is None
    assert history.unsettled(["s.x"]) is None, "added later, and the same since"
    assert history.unsettled(["id", "ts"]) == "ts"
    back = version(2, id=1, ts=2, s=(3, {"x": 5}))
    again = SchemaHistory((*versions, back), back)
    assert again.unsettled(["ts"]) == "ts", "some files have it under another name"
    assert again.unsettled(["s.x"]) == "s.x"


def test_columns_that_a_batch_adds_get_new_ids() -> None:
    current = parse_history(HUDIS, path="h")[1]
    item = pa.struct([("p", pa.int32()), ("new", pa.date32())])
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("a2", pa.float64()),
            ("s", pa.struct([("x2", pa.int32()), ("z", pa.string())])),
            ("l", pa.list_(item)),
            pa.field("m", pa.map_(pa.string(), pa.decimal128(10, 2))),
            ("late", pa.list_(pa.struct([("u", pa.timestamp("us", tz="UTC"))]))),
        ]
    )
    after = reconciled(current, schema, 20261122182103000)
    assert after.version == 20261122182103000
    fields = {field.name: field for field in after.root.fields}
    assert list(fields) == ["_hoodie_commit_time", "id", "a2", "s", "l", "m", "late"]
    assert fields["a2"].id == 6
    assert fields["a2"].type == "double"
    assert fields["s"] == current.root.field("s")
    added = fields["l"].to_json_object()["type"]["element"]["fields"][1]
    assert added == {"id": 17, "name": "new", "optional": True, "type": "date"}
    assert fields["late"].id == 18
    assert json.dumps(fields["late"].to_json_object()["type"]).count('"id": 20') == 1
    assert after.max_column_id == 20
    assert reconciled(after, schema) == after


def test_a_column_that_comes_back_by_a_batch_is_another_one() -> None:
    dropped = version(1, id=1)
    back = reconciled(
        InternalSchema(dropped.version, 2, dropped.root), text("id", "b"), int(READDED)
    )
    names = names_in_file(version(0, id=1, b=2), back)
    assert names is not None
    assert names.of("b").name is None


def test_types_that_hudi_cannot_read_back_are_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="no new columns of this type"):
        reconciled(version(0, id=1), text("id").append(pa.field("at", pa.timestamp("us"))))


def timeline(*completed: str, pending: str | None = None) -> ActiveTimeline:
    instants = [Instant(InstantTime(time), Action.COMMIT, State.COMPLETED) for time in completed]
    if pending:
        instants.append(Instant(InstantTime(pending), Action.COMMIT, State.INFLIGHT))
    return ActiveTimeline(tuple(instants))


def history_store(*times: str) -> MemoryStore:
    store = MemoryStore(f"history-{uuid4()}")
    for number, time in enumerate(times):
        body = print_history((version(0, a=1), version(time, a=1, b=number + 2)))
        store.put(f".hoodie/.schema/{time}.schemacommit", body)
        store.put(f".hoodie/.schema/{time}.schemacommit.inflight", b"")
    return store


@pytest.mark.parametrize(
    ("shown", "archived", "expected"),
    [
        (timeline(FIRST, RENAMED, READDED), False, READDED),
        (timeline(FIRST, RENAMED, pending=READDED), False, RENAMED),
        (timeline(FIRST, "20261122182109000"), False, FIRST),
        (timeline("20261122182109000"), True, READDED),
        (timeline("20261122182109000"), False, None),
    ],
    ids=["newest", "pending", "undone", "archived", "never completed"],
)
def test_the_newest_history_counts_whose_commit_completed(
    shown: ActiveTimeline, archived: bool, expected: str | None
) -> None:
    store = history_store(FIRST, RENAMED, READDED)
    found = find_versions(store, shown, lambda _: archived)
    assert [str(item.version) for item in found[1:]] == ([expected] if expected else [])
