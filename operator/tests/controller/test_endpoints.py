"""Endpoints that do not answer are left alone, and no endpoint takes more than its share."""

from __future__ import annotations

import threading

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.fake_clock import FakeClock
from tideline.testing.minio_server import MinioServer
from tideline_operator.api_objects import LeadershipLostError
from tideline_operator.controller.endpoints import (
    OPEN_FIRST_S,
    OPEN_LAST_S,
    SHARE,
    SHARE_UNPROVEN,
    TRIAL_S,
    UNANSWERED_MAX,
    UNUSED_MAX,
    Endpoint,
    EndpointGate,
    Endpoints,
    probing,
)
from tideline_operator.testing.dead_endpoints import DeadEndpoints

ONE = Endpoint("lake", "http://one")
OTHER = Endpoint("sea", "http://one")
KEYS = tuple(("lake", f"t{number}") for number in range(40))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def endpoints(clock: FakeClock) -> Endpoints:
    return Endpoints(clock)


def fail(endpoints: Endpoints, times: int = UNANSWERED_MAX) -> None:
    for _ in range(times):
        endpoints.note(ONE, "timed out")


def test_an_endpoint_that_does_not_answer_is_left_alone_and_the_same_one_of_others_is_not(
    endpoints: Endpoints,
) -> None:
    fail(endpoints, UNANSWERED_MAX - 1)
    assert endpoints.refusal(ONE) is None
    fail(endpoints, 1)
    assert endpoints.refusal(ONE) == "timed out"
    assert endpoints.refusal(OTHER) is None
    assert endpoints.unavailable == {ONE: "timed out"}


def test_an_answer_in_between_counts_from_the_start(endpoints: Endpoints) -> None:
    fail(endpoints, UNANSWERED_MAX - 1)
    endpoints.note(ONE, None)
    fail(endpoints, UNANSWERED_MAX - 1)
    assert endpoints.refusal(ONE) is None


def test_one_request_at_a_time_is_let_through_after_a_while(
    endpoints: Endpoints, clock: FakeClock
) -> None:
    fail(endpoints)
    clock.advance(OPEN_FIRST_S)
    assert endpoints.refusal(ONE) is None
    assert endpoints.refusal(ONE) == "timed out"
    endpoints.note(ONE, None)
    assert endpoints.refusal(ONE) is None
    assert not endpoints.unavailable


def test_whiles_grow_with_each_request_that_is_not_answered(
    endpoints: Endpoints, clock: FakeClock
) -> None:
    fail(endpoints)
    for wait_s in (5.0, 10.0, 20.0, 40.0, OPEN_LAST_S, OPEN_LAST_S):
        clock.advance(wait_s - 0.1)
        assert endpoints.refusal(ONE) is not None
        clock.advance(0.1)
        assert endpoints.refusal(ONE) is None
        fail(endpoints, 1)


def test_a_trial_that_never_ends_is_followed_by_another(
    endpoints: Endpoints, clock: FakeClock
) -> None:
    fail(endpoints)
    clock.advance(OPEN_FIRST_S)
    assert endpoints.refusal(ONE) is None
    clock.advance(TRIAL_S)
    assert endpoints.refusal(ONE) is None


def test_requests_that_were_under_way_do_not_make_the_while_longer(
    endpoints: Endpoints, clock: FakeClock
) -> None:
    fail(endpoints, 10)
    clock.advance(OPEN_FIRST_S)
    assert endpoints.refusal(ONE) is None


def test_probes_pass_and_what_they_find_counts(endpoints: Endpoints, clock: FakeClock) -> None:
    fail(endpoints)
    with probing():
        assert endpoints.refusal(ONE) is None
        fail(endpoints, 1)
    clock.advance(OPEN_FIRST_S)
    assert endpoints.refusal(ONE) is not None
    with probing():
        endpoints.note(ONE, None)
    assert endpoints.refusal(ONE) is None


def test_threads_that_wait_for_an_answer_are_known(endpoints: Endpoints, clock: FakeClock) -> None:
    own = threading.get_ident()
    endpoints.refusal(ONE)
    assert own not in endpoints.waiting_threads(1.0)
    clock.advance(1.1)
    assert own in endpoints.waiting_threads(1.0)
    endpoints.note(ONE, None)
    assert own not in endpoints.waiting_threads(1.0)
    endpoints.enter(KEYS[0], frozenset({ONE}))
    endpoints.refusal(ONE)
    clock.advance(1.1)
    endpoints.leave(KEYS[0])
    assert own not in endpoints.waiting_threads(1.0)


def test_turns_beyond_the_share_wait_in_line_and_are_woken_in_order(endpoints: Endpoints) -> None:
    at_one = frozenset({ONE})
    entered = [endpoints.enter(key, at_one) for key in KEYS[:4]]
    assert entered == [True] * SHARE_UNPROVEN + [False] * (4 - SHARE_UNPROVEN)
    assert endpoints.enter(("sea", "x"), frozenset({OTHER}))
    assert endpoints.leave(KEYS[0]) == (KEYS[2],)
    assert endpoints.enter(KEYS[2], at_one)
    assert endpoints.waiting == 1


def test_an_endpoint_that_answers_has_more_places(endpoints: Endpoints) -> None:
    at_one = frozenset({ONE})
    endpoints.note(ONE, None)
    entered = [endpoints.enter(key, at_one) for key in KEYS]
    assert entered.count(True) == SHARE
    endpoints.forget(KEYS[SHARE])
    assert endpoints.leave(KEYS[0]) == (KEYS[SHARE + 1],)


def test_a_table_that_is_gone_or_moved_leaves_nothing(endpoints: Endpoints) -> None:
    fail(endpoints)
    assert endpoints.enter(KEYS[0], frozenset({ONE}))
    endpoints.leave(KEYS[0])
    assert endpoints.enter(KEYS[0], frozenset({OTHER}))
    assert not endpoints.unavailable
    endpoints.forget(KEYS[0])
    assert not endpoints._known


def test_requests_of_the_engine_pass_the_gate() -> None:
    endpoints = Endpoints(FakeClock())
    writes: list[str] = []
    gate = EndpointGate(endpoints, "lake", "", lambda: writes.append("asked"))
    limits = RequestLimits(0.2, 0.2, 0.2, retries_max=0, retry_timeout_s=0.1)
    connection = StoreConnection(S3Credentials("key", "secret"), limits=limits, gate=gate)
    with DeadEndpoints(2) as dead:
        for url in dead.urls:
            options = {"endpoint": url, "allow_http": "true"}
            location = StoreLocation.of("s3://bucket/table", options)
            store = location.open(connection)
            server = location.server()
            assert server == url
            messages = set()
            for _ in range(UNANSWERED_MAX + 1):
                with pytest.raises(StorageUnavailableError) as caught:
                    store.get("x")
                messages.add(str(caught.value))
            # The reason stays the same once nothing is sent any more.
            assert len(messages) == 1
            assert endpoints.unavailable[Endpoint("lake", server)] in messages.pop()
            with pytest.raises(StorageUnavailableError):
                store.put_if_absent("x", b"")
    assert len(writes) == 2


@pytest.mark.minio
def test_a_leader_whose_term_ends_stops_in_the_middle_of_a_deletion(
    minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.storage.remote.store._DELETED_AT_ONCE", 2)
    requests_left = 3

    def check() -> None:
        nonlocal requests_left
        if requests_left == 0:
            raise LeadershipLostError("not the leader")
        requests_left -= 1

    gate = EndpointGate(Endpoints(FakeClock()), "lake", "", check)
    keys = S3Credentials(minio_server.access_key, minio_server.secret_key)
    uri = f"s3://{minio_server.create_bucket()}/table"
    location = StoreLocation.of(uri, minio_server.storage_options())
    paths = [f"file-{number}" for number in range(10)]
    plain = location.open(StoreConnection(keys))
    for path in paths:
        plain.put(path, b"rows")
    with pytest.raises(LeadershipLostError):
        location.open(StoreConnection(keys, gate=gate)).delete_many(paths)
    assert sorted(found.path for found in plain.list()) == paths[6:]


def test_a_process_that_is_not_the_leader_sends_no_write_to_a_store() -> None:
    def refuse() -> None:
        raise LeadershipLostError("not the leader")

    gate = EndpointGate(Endpoints(FakeClock()), "lake", "", refuse)
    connection = StoreConnection(S3Credentials("key", "secret"), gate=gate)
    options = {"endpoint": "http://127.0.0.1:1", "allow_http": "true"}
    store = StoreLocation.of("s3://bucket/table", options).open(connection)
    for write in (
        lambda: store.delete_many(["a", "b"]),
        lambda: store.put("a", b""),
        lambda: store.put_if_absent("a", b""),
        lambda: store.put_if_match("a", b"", version="1"),
    ):
        with pytest.raises(LeadershipLostError):
            write()


def test_of_servers_that_no_table_names_the_newest_are_known(endpoints: Endpoints) -> None:
    used = Endpoint("lake", "http://used")
    endpoints.enter(KEYS[0], frozenset((used,)))
    for server in ("http://used", *(f"http://{number}" for number in range(UNUSED_MAX + 10))):
        for _ in range(UNANSWERED_MAX):
            endpoints.note(Endpoint("lake", server), "timed out")
    fail(endpoints)
    assert len(endpoints.unavailable) == UNUSED_MAX + 1
    assert used in endpoints.unavailable
    assert ONE in endpoints.unavailable
