"""The fault injector itself: counting writes, dying at one, losing replies."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.local.store import LocalStore
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import AlreadyExists, Changed, ObjectStore, Written
from tideline.testing.faulty_store import (
    FaultPlan,
    FaultyStore,
    LostReply,
    RecordedWrite,
    SimulatedCrash,
)


def six_kinds_of_write(store: ObjectStore) -> None:
    store.put("a", b"1")
    created = store.put_if_absent("b", b"2")
    assert isinstance(created, Written)
    store.put_if_match("b", b"3", version=created.version)
    with store.open_writer("c") as writer:
        writer.write(b"4")
    store.delete("a")
    store.delete_many(["b", "missing"])
    store.delete_prefix("")


SIX_KINDS = (
    RecordedWrite("put", "a"),
    RecordedWrite("put_if_absent", "b"),
    RecordedWrite("put_if_match", "b"),
    RecordedWrite("open_writer", "c"),
    RecordedWrite("close_writer", "c"),
    RecordedWrite("delete", "a"),
    RecordedWrite("delete", "b"),
    RecordedWrite("delete", "missing"),
    RecordedWrite("delete_prefix", ""),
)


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


# A crash leaves streams open on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


def state(store: ObjectStore) -> dict[str, bytes]:
    return {info.path: store.get(info.path) for info in store.list()}


def test_without_a_plan_it_only_records(local: LocalStore) -> None:
    store = FaultyStore(local)
    six_kinds_of_write(store)
    assert store.writes == SIX_KINDS
    assert state(store) == {}
    assert store.local_path("a") is None


def test_it_dies_before_or_after_any_write_and_stays_dead(tmp_path: Path) -> None:
    states: list[dict[str, bytes]] = []
    for number in range(1, len(SIX_KINDS) + 1):
        for moment, plan in (
            ("before", FaultPlan(crash_before_write=number)),
            ("after", FaultPlan(crash_after_write=number)),
        ):
            inner = LocalStore(str(tmp_path / f"{number}-{moment}"))
            store = FaultyStore(inner, plan)
            with pytest.raises(SimulatedCrash):
                six_kinds_of_write(store)
            assert store.writes == SIX_KINDS[:number]
            with pytest.raises(SimulatedCrash):
                store.put("a", b"")
            with pytest.raises(SimulatedCrash):
                store.list_directory()
            assert len(store.writes) == number
            states.append(state(inner))
    # What is left after write n is what is left before write n + 1, except for buffered bytes.
    assert states == [
        {},
        {"a": b"1"},
        {"a": b"1"},
        {"a": b"1", "b": b"2"},
        {"a": b"1", "b": b"2"},
        {"a": b"1", "b": b"3"},
        {"a": b"1", "b": b"3"},
        {"a": b"1", "b": b"3", "c": b""},
        {"a": b"1", "b": b"3", "c": b""},
        {"a": b"1", "b": b"3", "c": b"4"},
        {"a": b"1", "b": b"3", "c": b"4"},
        {"b": b"3", "c": b"4"},
        {"b": b"3", "c": b"4"},
        {"c": b"4"},
        {"c": b"4"},
        {"c": b"4"},
        {"c": b"4"},
        {},
    ]


def test_a_crash_is_not_cleaned_up_after(local: LocalStore) -> None:
    store = FaultyStore(local, FaultPlan(crash_before_write=2))
    with pytest.raises(SimulatedCrash), store.open_writer("half") as writer:
        writer.write(b"x" * 3_000_000)
        try:
            store.put("other", b"")
        except Exception:  # what product code does to tidy up
            pytest.fail("a crash must not look like an error")
    found = local.head("half")
    assert found is not None
    assert 0 < found.size_bytes < 3_000_001


def test_a_lost_reply_hides_a_write_that_took_place() -> None:
    inner = MemoryStore("faulty-lost")
    store = FaultyStore(inner, FaultPlan(lost_reply_of_conditional_write=1))
    with pytest.raises(StorageUnavailableError):
        store.put_if_absent("x", b"1")
    assert inner.get("x") == b"1"
    store = FaultyStore(
        inner, FaultPlan(lost_reply_of_conditional_write=1, lost_reply=LostReply.REFUSED)
    )
    assert store.put_if_absent("y", b"2") == AlreadyExists()
    assert inner.get("y") == b"2"
    store.plan = FaultPlan(lost_reply_of_conditional_write=2, lost_reply=LostReply.REFUSED)
    version = inner.get_versioned("y").version
    assert store.put_if_match("y", b"3", version=version) == Changed()
    assert inner.get("y") == b"3"
    MemoryStore.forget("faulty-lost")


def test_calls_fail_by_their_number() -> None:
    store = FaultyStore(MemoryStore("faulty-calls"), FaultPlan(unavailable_calls=frozenset({2})))
    store.put("x", b"1")
    with pytest.raises(StorageUnavailableError):
        store.get("x")
    assert store.get("x") == b"1"
    MemoryStore.forget("faulty-calls")


def test_an_unavailable_close_aborts_the_upload(local: LocalStore) -> None:
    store = FaultyStore(local, FaultPlan(unavailable_calls=frozenset({2})))
    with pytest.raises(StorageUnavailableError), store.open_writer("x") as writer:
        writer.write(b"1")
    assert state(local) == {}


def test_it_can_kill_its_own_process(tmp_path: Path) -> None:
    program = """if True:
        import sys
        from tideline.storage.local.store import LocalStore
        from tideline.testing.faulty_store import FaultPlan, FaultyStore
        store = FaultyStore(
            LocalStore(sys.argv[1]), FaultPlan(crash_after_write=2, kill_process=True)
        )
        for name in "abc":
            store.put(name, b"")
    """
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
