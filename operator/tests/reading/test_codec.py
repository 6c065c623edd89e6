"""Values as JSON by their declared types: all that is handed over comes back, nothing else does."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.hudi.services.registry import service_named
from tideline.hudi.table.file_counts import FileCounts
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.iceberg.services.due_facts import IcebergFiles
from tideline.storage.refusals import MissingBucketError
from tideline.storage.s3.client import S3Credentials
from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.decide.observed import Observed, ObservedPending
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.observe.observation import Observer
from tideline_operator.reading.calls import Failure, ReadingFailedError
from tideline_operator.reading.codec import VALUES_MAX, CodecError, from_bytes, to_bytes
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.testing.table_states import EMPTY, FILES, TABLE, resolved, resolved_iceberg
from tideline_operator.testing.table_states import seen as seen_with

TIME = InstantTime("20260101000000000")


def back(kind: Any, value: Any) -> Any:
    return from_bytes(kind, to_bytes(kind, value))


def test_a_look_at_a_hudi_table_comes_back_as_it_was() -> None:
    instants = (Instant(TIME, Action.COMMIT, State.COMPLETED),)
    made_ms = {instants[0]: 17}
    timeline = ActiveTimeline(instants, has_archive=False, made_ms=made_ms)
    pending = ObservedPending("1", "clean", "inflight", service=service_named("cleaning"))
    history = replace(TABLE.history, timeline=timeline, clusterings=frozenset({TIME}))
    table = replace(TABLE, history=history, pending=(pending,))
    observed = seen_with(*FILES, table=table)
    again = back(Observed, observed)
    assert again == observed
    found = again.table.history.timeline
    assert (found.made_ms, found.has_archive, found.start) == (made_ms, False, timeline.start)
    assert again.table.pending[0].service is service_named("cleaning")


def test_a_look_at_an_iceberg_table_comes_back_as_it_was() -> None:
    model = IcebergModel.create()
    observed = Observer(model.clock).observe(resolved_iceberg(model.location.uri), EMPTY)
    assert observed.iceberg is not None
    assert back(Observed, observed) == observed


def test_errors_are_values_too() -> None:
    files = IcebergFiles(files=3, problems={"x": ConfigError("no", path="a")}, quiet_at_ms=5)
    again = back(IcebergFiles, files)
    assert isinstance(again.problems["x"], ConfigError)
    assert (str(again.problems["x"]), again.files, again.quiet_at_ms) == ("no [path=a]", 3, 5)
    error = back(Failure, MissingBucketError("gone", value=3))
    assert (type(error), str(error)) == (MissingBucketError, "gone [value=3]")


class _OtherError(StorageUnavailableError):
    """Known to one side only."""


def test_an_error_of_an_unknown_class_is_the_nearest_known_one() -> None:
    assert type(back(Failure, _OtherError("away"))) is StorageUnavailableError
    assert type(back(Failure, ReadingFailedError("no"))) is ReadingFailedError
    assert type(back(Failure, TidelineError("no"))) is TidelineError


def test_what_is_declared_comes_back_as_it_was() -> None:
    table = resolved(podTemplate={"spec": {"nodeSelector": {"disk": "ssd"}}})
    assert back(ResolvedTable, table) == table
    status = LakeTableStatus(last_valid_spec={"location": "table", "n": [1, None, True]})
    assert back(LakeTableStatus, status) == status


def test_credentials_are_no_value_that_is_handed_over() -> None:
    with pytest.raises(CodecError):
        to_bytes(object, S3Credentials("key", "secret"))


def document(observed: Observed) -> list[Any]:
    return list(json.loads(to_bytes(Observed, observed)))


def with_part(number: int, part: object) -> bytes:
    parts = document(seen_with(*FILES))
    parts[number] = part
    return json.dumps(parts).encode()


FORBIDDEN = {
    "a pickle": pickle.dumps(Observed()),
    "nothing": b"",
    "no JSON": b"[1,",
    "another shape": b"{}",
    "too few fields": b"[null]",
    "a type in place of a value": with_part(4, "os.system"),
    "a number in place of a truth": with_part(4, 1),
    "a class by name": with_part(0, {"__class__": "os.system", "args": ["true"]}),
    "a problem without one of its parts": with_part(3, ["a", "b", 1]),
    "a text in place of a list": with_part(2, "abc"),
    "an unhashable member of a set": with_part(2, [["a"]]),
    "nesting": b"[" * 100_000,
    "a long number": with_part(4, 1).replace(b"1", b"1" * 10_000),
    "many values": b"[" + b"[]," * VALUES_MAX + b"[]]",
    "half a character in UTF-8": b'["\xff"]',
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(CodecError):
        from_bytes(Observed, FORBIDDEN[name])


@pytest.mark.parametrize("number", ["7", "-1", "true", '"0"', "null"])
def test_a_choice_is_one_that_there_is(number: str) -> None:
    for kind in (Failure, IcebergFiles | FileCounts):
        with pytest.raises(CodecError):
            from_bytes(kind, f"[{number},[0,0,0,0]]".encode())


def test_a_service_and_an_enumeration_are_those_that_there_are() -> None:
    for kind, text in ((ObservedPending, '["1","a","b",false,null,"os",false,"","UNKNOWN"]'),
                       (ObservedPending, '["1","a","b",false,null,null,false,"","__class__"]'),
                       (Action, '"__members__"')):  # fmt: skip
        with pytest.raises(CodecError):
            from_bytes(kind, text.encode())


def test_a_schema_is_checked_as_that_of_a_file_is() -> None:
    model = IcebergModel.create()
    observed = Observer(model.clock).observe(resolved_iceberg(model.location.uri), EMPTY)
    body = to_bytes(ObservedIceberg, observed.iceberg)
    with pytest.raises(CodecError):
        from_bytes(ObservedIceberg, body.replace(b'"fields"', b'"os.system"'))
