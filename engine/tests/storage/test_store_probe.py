"""The probe finds every way in which real stores were seen to break their promises, by name."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tideline.errors import ConfigError, InvalidDataError, StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import (
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    UnsupportedRequestError,
    Written,
)
from tideline.storage.probe.left_behind import CHECKS_FOLDER, check_folder
from tideline.storage.probe.race import QUICK, THOROUGH
from tideline.storage.probe.report import ProbeOutcome, StorePromise, StoreReport
from tideline.storage.probe.run import QUICK_PROMISES, check_store, probe_conditional_writes
from tideline.storage.remote.failure import RequestFailure
from tideline.storage.s3.store import S3_WORDS
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash

BETWEEN_CHECK_AND_WRITE_S = 0.001
# The store contract lists more than a page of every store already.
WITHOUT_PAGES = [promise for promise in StorePromise if promise is not StorePromise.LIST_PAGES]


class Careless(MemoryStore):
    """What the others have in common: a writer that looks first and writes afterwards loses
    races."""

    def look_then_create(self, path: str, body: bytes) -> Written | AlreadyExists:
        if self.head(path) is not None:
            return AlreadyExists()
        time.sleep(BETWEEN_CHECK_AND_WRITE_S)
        return self.put(path, body)

    def look_then_replace(self, path: str, body: bytes, version: str) -> Written | Changed:
        found = self.head(path)
        if found is None or found.version != version:
            return Changed()
        time.sleep(BETWEEN_CHECK_AND_WRITE_S)
        return self.put(path, body)


class IgnoresIfNoneMatch(Careless):
    """The header is accepted and means nothing."""

    def put_if_absent(
        self,
        path: str,
        body: bytes,
        *,
        token: str | None = None,  # noqa: ARG002
    ) -> Written | AlreadyExists:
        return self.put(path, body)


class IgnoresIfMatch(Careless):
    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:  # noqa: ARG002
        return self.put(path, body)


class LosesCreateRaces(Careless):
    """Every question asked alone is answered rightly."""

    def put_if_absent(
        self,
        path: str,
        body: bytes,
        *,
        token: str | None = None,  # noqa: ARG002
    ) -> Written | AlreadyExists:
        return self.look_then_create(path, body)


class LosesReplaceRaces(Careless):
    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        return self.look_then_replace(path, body, version)


class LosesRacesForDeletedNames(Careless):
    """A name is safe only as long as it was never deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._deleted: set[str] = set()

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        if path in self._deleted:
            return self.look_then_create(path, body)
        return super().put_if_absent(path, body, token=token)

    def delete(self, path: str) -> None:
        self._deleted.add(path)
        super().delete(path)


class LocksByItself(Careless):
    """One endpoint of several: it lets its own clients race fairly, and knows of no other one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._own_lock = threading.Lock()

    def put_if_absent(
        self,
        path: str,
        body: bytes,
        *,
        token: str | None = None,  # noqa: ARG002
    ) -> Written | AlreadyExists:
        with self._own_lock:
            return self.look_then_create(path, body)


class RevivesDeleted(Careless):
    """If-Match on a missing object writes it."""

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        if self.head(path) is None:
            return self.put(path, body)
        return super().put_if_match(path, body, version=version)


class DropsUpdates(Careless):
    """Acknowledges each third replacement without writing it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._replaced = 0

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        if not path.endswith("counter"):
            return super().put_if_match(path, body, version=version)
        self._replaced += 1
        if self._replaced % 3 == 0:
            return Written(version)
        return super().put_if_match(path, body, version=version)


class ListsLate(Careless):
    """A listing shows the directory as the listing before it could have: one change behind."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._seen: dict[str, Listing] = {}

    def list_directory(self, prefix: str = "") -> Listing:
        now = super().list_directory(prefix)
        if not self.is_late_for(prefix):
            return now
        return self._seen.pop(prefix, None) or self._seen.setdefault(prefix, now)

    def is_late_for(self, prefix: str) -> bool:
        return prefix.endswith("listed")


class ListsDeleted(ListsLate):
    def is_late_for(self, prefix: str) -> bool:
        return prefix.endswith("emptied")


class ListsOnePage(Careless):
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        for number, found in enumerate(super().list(prefix)):
            if number == 1000:
                return
            yield found


class ReadsStale(Careless):
    """A read right after a write answers with the body before."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._before: dict[str, bytes] = {}

    def put(self, path: str, body: bytes) -> Written:
        if path.endswith("/read") and self.head(path) is not None:
            self._before[path] = super().get(path)
        return super().put(path, body)

    def get(self, path: str) -> bytes:
        return self._before.pop(path, None) or super().get(path)


class InventsObjects(Careless):
    def get(self, path: str) -> bytes:
        return b"" if path.endswith("never-written") else super().get(path)


class DecodesNames(Careless):
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        for found in super().list(prefix):
            yield ObjectInfo(
                unquote(found.path), found.size_bytes, found.modified_ms, found.version
            )


class IgnoresCase(Careless):
    def put(self, path: str, body: bytes) -> Written:
        return super().put(path.lower(), body)

    def get(self, path: str) -> bytes:
        return super().get(path.lower())


class TakesBackslashesForSlashes(Careless):
    def put(self, path: str, body: bytes) -> Written:
        return super().put(path.replace("\\", "/"), body)

    def get(self, path: str) -> bytes:
        return super().get(path.replace("\\", "/"))


class RefusesBackslashes(Careless):
    def put(self, path: str, body: bytes) -> Written:
        if "\\" in path:
            raise InvalidDataError("it keeps no names with a backslash", path=path)
        return super().put(path, body)


class MixesUpParts(Careless):
    def get(self, path: str) -> bytes:
        body = super().get(path)
        return body[::-1] if path.endswith("parts") else body


class SaysNo(Careless):
    """An honest server without conditional replacement."""

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:  # noqa: ARG002
        raise UnsupportedRequestError("cannot replace: the server answered 501 NotImplemented")


@pytest.fixture
def name() -> Iterator[str]:
    unique = secrets.token_hex(8)
    yield unique
    MemoryStore.forget(unique)


@pytest.mark.parametrize(
    ("kind", "promise", "words"),
    [
        (ReadsStale, StorePromise.READ_AFTER_WRITE, "older body"),
        (InventsObjects, StorePromise.MISSING_OBJECT, "never written"),
        (IgnoresIfNoneMatch, StorePromise.CREATE_ONCE, "If-None-Match"),
        (LosesCreateRaces, StorePromise.CREATE_RACE, "of 8 concurrent requests"),
        (LosesRacesForDeletedNames, StorePromise.CREATE_RACE_AFTER_DELETE, "after the object"),
        (IgnoresIfMatch, StorePromise.REPLACE_MATCHING, "If-Match"),
        (RevivesDeleted, StorePromise.REPLACE_MISSING, "was deleted"),
        (LosesReplaceRaces, StorePromise.REPLACE_RACE, "of 8 concurrent requests"),
        (LosesReplaceRaces, StorePromise.COUNTER, "acknowledged updates"),
        (DropsUpdates, StorePromise.COUNTER, "acknowledged updates"),
        (ListsLate, StorePromise.LIST_AFTER_CREATE, "out of a listing"),
        (ListsDeleted, StorePromise.LIST_AFTER_DELETE, "just deleted"),
        (ListsOnePage, StorePromise.LIST_PAGES, "1,000 of 1,005"),
        (DecodesNames, StorePromise.NAMES, "another form"),
        (IgnoresCase, StorePromise.NAMES, "mixes up the name 'Case/part'"),
        (TakesBackslashesForSlashes, StorePromise.NAMES, "another form"),
        (MixesUpParts, StorePromise.UPLOAD_IN_PARTS, "parts"),
    ],
)
def test_each_broken_promise_is_found_and_costed(
    kind: Callable[[str], MemoryStore], promise: StorePromise, words: str, name: str
) -> None:
    report = check_store((kind(name),), promises=(promise,))
    (result,) = report.results
    assert result.outcome is ProbeOutcome.FAILED
    assert words in result.message
    assert promise.cost in result.message
    assert report.outcome is ProbeOutcome.FAILED
    assert [*MemoryStore(name).list()] == []


def test_names_that_are_refused_are_noted(name: str) -> None:
    report = check_store((RefusesBackslashes(name),), promises=(StorePromise.NAMES,))
    assert report.outcome is ProbeOutcome.PASSED
    assert report.notes == (
        "values of partitions with such names are refused: it keeps no names with a backslash",
    )
    assert [*MemoryStore(name).list()] == []


def test_a_race_through_several_endpoints_finds_what_one_endpoint_hides(name: str) -> None:
    client, other_client = LocksByItself(name), LocksByItself(name)
    race = (StorePromise.CREATE_RACE,)
    assert check_store((client,), promises=race).outcome is ProbeOutcome.PASSED
    assert check_store((client, other_client), promises=race).outcome is ProbeOutcome.FAILED


def test_a_store_that_says_no_is_unsupported_rather_than_failed(name: str) -> None:
    report = check_store((SaysNo(name),))
    assert tuple(result.promise for result in report.results) == tuple(StorePromise)
    assert report.outcome is ProbeOutcome.UNSUPPORTED
    unsupported = {result.promise for result in report.complaints}
    assert unsupported == {
        StorePromise.REPLACE_MATCHING,
        StorePromise.REPLACE_MISSING,
        StorePromise.REPLACE_RACE,
        StorePromise.COUNTER,
    }
    with pytest.raises(ConfigError, match="501 NotImplemented"):
        probe_conditional_writes(SaysNo(name))


def test_a_server_without_a_function_is_no_reason_to_retry() -> None:
    answer = RuntimeError("status code: 501 Not Implemented: <Code>NotImplemented</Code>")
    failure = RequestFailure.of(answer, S3_WORDS)
    assert not failure.outcome_unknown
    error = failure.error("replace", uri="s3://b/t", endpoint="https://host")
    assert isinstance(error, UnsupportedRequestError)
    assert "501 NotImplemented" in str(error)


def test_a_report_survives_json(name: str) -> None:
    race = (StorePromise.CREATE_RACE, StorePromise.REPLACE_RACE)
    report = check_store((LosesReplaceRaces(name),), promises=race)
    document: dict[str, Any] = report.to_json_object()
    assert document["outcome"] == "failed"
    assert StoreReport.from_json_object(document) == report
    document["checks"].append({"name": "of a later version", "outcome": "passed"})
    assert StoreReport.from_json_object(document) == report
    with pytest.raises(InvalidDataError, match="not the report"):
        StoreReport.from_json_object({"checks": [{"name": "counter", "outcome": "perhaps"}]})


@pytest.mark.parametrize(
    ("kind", "header"),
    [
        (IgnoresIfNoneMatch, "If-None-Match"),
        (LosesCreateRaces, "If-None-Match"),
        (IgnoresIfMatch, "If-Match"),
        (LosesReplaceRaces, "If-Match"),
    ],
)
def test_no_table_is_made_where_writers_would_lose_commits(
    kind: type[MemoryStore], header: str, name: str
) -> None:
    with pytest.raises(ConfigError, match=rf"memory://{name}.*\({header}\)"):
        probe_conditional_writes(kind(name))
    assert [*MemoryStore(name).list()] == []


class FaultyServer(FaultyStore):
    endpoint_url = "http://server"


@pytest.mark.parametrize(("kind", "calls_max"), [(FaultyStore, 60), (FaultyServer, 120)])
def test_the_quick_probe_asks_little(kind: type[FaultyStore], calls_max: int, name: str) -> None:
    store = kind(MemoryStore(name))
    probe_conditional_writes(store)
    assert calls_max / 2 < store.calls < calls_max
    assert [*store.list()] == []


def killed_check(name: str, after_write: int, owner: str) -> bool:
    """A check whose process dies after a write; False when it had no so many."""
    store = FaultyStore(MemoryStore(name), FaultPlan(crash_after_write=after_write))
    with suppress(SimulatedCrash):
        check_store((store,), effort=QUICK, promises=QUICK_PROMISES, owner=owner)
    return store.is_dead


def test_what_a_killed_check_leaves_is_removed_by_the_next_of_its_owner(name: str) -> None:
    left, after_write = 0, 1
    while killed_check(name, after_write, "lake.people"):
        left = max(left, len([*MemoryStore(name).list()]))
        report = check_store(
            (MemoryStore(name),), effort=QUICK, promises=QUICK_PROMISES, owner="lake.people"
        )
        assert report.complaints == ()
        assert [*MemoryStore(name).list()] == []
        after_write += 1
    assert left > 1
    assert after_write > 20


def test_another_does_not_know_that_a_check_was_killed(name: str) -> None:
    assert killed_check(name, 3, "lake.people")
    left = [*MemoryStore(name).list()]
    assert left
    for owner in ("lake.people2", ""):
        check_store((MemoryStore(name),), promises=(StorePromise.CREATE_ONCE,), owner=owner)
        assert [*MemoryStore(name).list()] == left


def test_what_a_killed_check_leaves_is_removed_by_any_other_when_it_is_old(tmp_path: Path) -> None:
    old, young, anothers = (
        tmp_path / folder / "left"
        for folder in (
            check_folder("lake.people", secrets.token_hex(16)),
            check_folder("", secrets.token_hex(16)),
            f"{CHECKS_FOLDER}/of nobody we know",
        )
    )
    an_hour_ago = time.time() - 3600
    for file in (old, young, anothers):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        if file is not young:
            os.utime(file, (an_hour_ago, an_hour_ago))
    probe_conditional_writes(StoreLocation.of(tmp_path).open())
    assert {file for file in tmp_path.rglob("*") if file.is_file()} == {young, anothers}


def test_replies_lost_in_a_race_are_no_reason_to_refuse(name: str) -> None:
    # The two before the first race are creates that the store itself has to settle.
    for lost in range(3, 21):
        for how in LostReply:
            plan = FaultPlan(lost_reply_of_conditional_write=lost, lost_reply=how)
            store = FaultyStore(MemoryStore(name), plan)
            try:
                probe_conditional_writes(store)
            except StorageUnavailableError:
                assert how is LostReply.UNAVAILABLE
            assert store.conditional_writes >= lost


def test_a_store_that_is_away_is_not_called_wrong(name: str) -> None:
    calls = frozenset(range(1, 9))
    store = FaultyStore(MemoryStore(name), FaultPlan(unavailable_calls=calls))
    with pytest.raises(StorageUnavailableError):
        probe_conditional_writes(store)


def test_a_folder_that_was_not_there_is_gone_again(tmp_path: Path) -> None:
    location = StoreLocation.of(tmp_path / "new")
    report = check_store((location.open(), location.open()), promises=WITHOUT_PAGES)
    assert report.complaints == ()
    assert not (tmp_path / "new").exists()


@pytest.mark.minio
def test_minio_keeps_every_promise(s3_location: StoreLocation) -> None:
    stores = [s3_location.open() for _ in range(THOROUGH.racers)]
    assert check_store(stores, promises=WITHOUT_PAGES).complaints == ()
    assert [*stores[0].list()] == []
