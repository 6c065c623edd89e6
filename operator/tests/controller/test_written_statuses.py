"""Which statuses are worth a write, and whom it wakes: the lag of a stream alone is written every
few seconds, and what a turn writes wakes no table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tideline_operator.api_objects import LAKE_TABLES, ApiRefusedError, Manifest
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.reconciliation import LAG_MS, Reconciliation
from tideline_operator.controller.status_writer import StaleStatusError, StatusWriter
from tideline_operator.controller.table_session import TableSession
from tideline_operator.kube import KubeApi
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import IngestStatus, LakeTableStatus
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

NOW_MS = 1_800_000_000_000
WAITS = IngestStatus(
    polled_at=Timestamp(NOW_MS - 1_000),
    lag_files=1,
    lag_records=20,
    oldest_record_at=Timestamp(NOW_MS - 900),
)


def has_news(before: IngestStatus, after: IngestStatus, *, written_ms: int, **given: Any) -> bool:
    session = TableSession(written_ms=written_ms)
    reported = LakeTableStatus(ingest={"feed": before})
    status = replace(reported, ingest={"feed": after}, **given)
    return Reconciliation(("lake", "t"), session, {}, status, reported, NOW_MS).has_news


def test_a_look_that_found_the_same_is_no_news() -> None:
    looked = replace(WAITS, polled_at=Timestamp(NOW_MS))
    assert not has_news(WAITS, looked, written_ms=0)


@pytest.mark.parametrize(
    "change", [{"lag_records": 40}, {"oldest_record_at": Timestamp(NOW_MS)}, {"lag_bytes": 9}]
)
def test_how_much_waits_is_written_every_few_seconds(change: dict[str, Any]) -> None:
    before = replace(WAITS, lag_bytes=1)
    after = replace(before, **change)
    assert not has_news(before, after, written_ms=NOW_MS - LAG_MS + 1)
    assert has_news(before, after, written_ms=NOW_MS - LAG_MS)


@pytest.mark.parametrize(
    "change",
    [
        {"lag_records": 0, "lag_files": 0, "oldest_record_at": None},
        {"lag_files": 2},
        {"checkpoint": "generation 1 up to t/0@9"},
        {"quarantined_rows": 1},
    ],
)
def test_anything_else_is_written_at_once(change: dict[str, Any]) -> None:
    assert has_news(WAITS, replace(WAITS, **change), written_ms=NOW_MS)
    assert has_news(WAITS, replace(WAITS, lag_records=40), written_ms=NOW_MS, lag_files=1)
    assert has_news(replace(WAITS, lag_records=0), WAITS, written_ms=NOW_MS)


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def slow_answers(case: ControllerCase) -> None:
    """The watch shows each status before the answer to its write arrives."""
    note = case.operator_api.on_request
    assert note is not None

    def note_late(verb: str, resource: str, status: int) -> None:
        note(verb, resource, status)
        if verb == "apply":
            time.sleep(0.3)

    case.operator_api.on_request = note_late


@pytest.mark.api_server
def test_what_a_turn_writes_wakes_no_table_and_what_another_writes_does(
    case: ControllerCase,
) -> None:
    case.declare(location="s3://lake/people", storeRef="nowhere", ingest=None)
    controller = case.make()
    slow_answers(case)
    assert controller.start(timeout_s=30)
    case.until(lambda: case.condition("Ready").get("reason") == "StoreMissing", "it is reported")
    time.sleep(1)
    assert (case.turns(), case.requests("apply", "laketables")) == (1, 1)
    change = {"status": {"observedGeneration": 7}}
    case.api.patch(LAKE_TABLES, "people", change, case.namespace, subresource="status")
    case.until(lambda: case.turns() >= 2, "it is looked at again")
    case.until(lambda: case.status().get("observedGeneration") == 1, "it is corrected")
    case.change("people", {"metadata": {"annotations": {"note": "changed"}}})
    case.until(lambda: case.turns() >= 3, "it is looked at again")


@pytest.mark.api_server
def test_an_owner_is_woken_by_what_a_turn_writes_whichever_comes_first(
    case: ControllerCase,
) -> None:
    changes: list[tuple[Manifest, Manifest]] = []
    read = case.declare()
    cache = ObjectCache()
    writer = StatusWriter(case.api, cache, lambda *both: changes.append(both))
    written = writer.write(read, LakeTableStatus(observed_generation=1))
    assert changes == [(read, written)]
    assert len(cache) == 1
    assert writer.write(written, LakeTableStatus(observed_generation=1)) is written
    assert len(changes) == 1


class EventFirst:
    """An API server whose answers come after the event of the write, if it takes it at all."""

    def __init__(self, is_refused: bool = False) -> None:
        self.is_refused = is_refused
        self.seen: list[bool] = []
        self.writer: StatusWriter | None = None

    def apply(self, _: object, manifest: Manifest, *__: object, **___: object) -> Manifest:
        assert self.writer is not None
        before = {"metadata": {**TABLE["metadata"]}, "spec": {"a": 1}}
        after = {**before, "status": manifest["status"]}
        others = [
            {**after, "status": {"observedGeneration": 9}},
            {**after, "spec": {"a": 2}},
            {**after, "metadata": {**TABLE["metadata"], "annotations": {"b": "c"}}},
            {**after, "metadata": {**TABLE["metadata"], "name": "other"}},
        ]
        newer = {**after, "metadata": {**TABLE["metadata"], "resourceVersion": "2"}}
        self.seen = [self.writer.is_own(before, item) for item in (newer, *others)]
        self.seen.append(self.writer.is_own(None, newer) or self.writer.is_own(newer, None))
        if self.is_refused:
            raise ApiRefusedError(409, "Conflict", "it was changed")
        return newer


TABLE: Manifest = {
    "metadata": {"name": "t", "namespace": "lake", "uid": "u", "resourceVersion": "1"},
    "spec": {"a": 1},
}


@pytest.mark.parametrize("is_refused", [False, True])
def test_only_the_status_that_is_being_written_is_own(is_refused: bool) -> None:
    api = EventFirst(is_refused)
    api.writer = writer = StatusWriter(cast(KubeApi, api), ObjectCache())
    with pytest.raises(StaleStatusError) if is_refused else nullcontext():
        writer.write(TABLE, LakeTableStatus(observed_generation=1))
    assert api.seen == [True, False, False, False, False, False]
    written = {**TABLE, "status": {"observedGeneration": 1}}
    assert not writer.is_own(TABLE, written)
