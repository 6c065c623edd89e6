"""A reading process that is hostile: whatever it sends, the controller's thread gets an error about
the table, in time, and nothing else."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tideline.ingest.location import Location
from tideline.secret_values import note_secrets
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.web_identity import WebIdentity
from tideline.testing.fake_clock import FakeClock
from tideline_operator.api_objects import LeadershipLostError
from tideline_operator.decide.observed import Observed, Problem
from tideline_operator.reading.access import Access
from tideline_operator.reading.calls import Failure, ReadingFailedError
from tideline_operator.reading.codec import to_bytes
from tideline_operator.reading.deleted_table import Removal
from tideline_operator.reading.frames import Channel, FrameKind
from tideline_operator.reading.reader_processes import ANSWER_BYTES_MAX, ReaderProcesses
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.hostile_reader import Behaviour, HostileReader
from tideline_operator.testing.table_states import EMPTY, resolved

DEADLINE_S = 1.0
TABLE = resolved()


@dataclass
class Gate:
    """The gate of a store, with what it was asked and told."""

    heard: list[tuple[str, object]] = field(default_factory=list)
    error: Exception | None = None

    def refusal(self, server: str, *, writes: bool) -> str | None:
        self.heard.append((server, writes))
        if self.error is not None:
            raise self.error
        return "it is left alone"

    def note(self, server: str, problem: str | None) -> None:
        self.heard.append((server, problem))


@contextmanager
def reader(folder: Path, behaviour: Behaviour) -> Iterator[tuple[ReaderProcesses, HostileReader]]:
    with HostileReader(folder, behaviour) as hostile:
        yield (
            ReaderProcesses(FakeClock(), {}, socket_path=hostile.path, deadline_s=DEADLINE_S),
            hostile,
        )


def result(body: bytes, kind: FrameKind = FrameKind.RESULT) -> Behaviour:
    return lambda channel, _: channel.send(kind, body)


def raw(body: bytes) -> Behaviour:
    return lambda _, connection: connection.sendall(body)


def huge(_: Channel, connection: socket.socket) -> None:
    connection.sendall(struct.pack("!cI", b"R", ANSWER_BYTES_MAX + 1))
    connection.sendall(b"[" * 1000)


def drip(_: Channel, connection: socket.socket) -> None:
    connection.sendall(struct.pack("!cI", b"R", 1000))
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


def endless_questions(channel: Channel, _: socket.socket) -> None:
    while True:
        channel.send(FrameKind.MAY_WRITE)
        channel.receive(4096)


def many_servers(channel: Channel, _: socket.socket) -> None:
    for number in range(100):
        told = ("store", f"http://{number}", None)
        channel.send(FrameKind.NOTE, to_bytes(tuple[str, str, str | None], told))
    time.sleep(5)


HOSTILE: dict[str, Behaviour] = {
    "garbage": raw(b"HTTP/1.1 200 OK\r\n\r\n"),
    "a huge frame": huge,
    "an answer that drips": drip,
    "silence": lambda *_: time.sleep(5),
    "its end": lambda *_: None,
    "half a frame": raw(struct.pack("!cI", b"R", 100) + b"[]"),
    "another type": result(b'{"__class__": "os.system"}'),
    "an error of no known class": result(b'[99, ["x", null, null, null, null]]', FrameKind.FAILURE),
    "questions for ever": endless_questions,
    "a question about a token that it may not have": result(b"", FrameKind.TOKEN),
    "a question that is none": result(b"", FrameKind.ANSWER),
    "a question to the gate of a catalog that there is not": result(
        b'["catalog","http://x",false]', FrameKind.REFUSAL
    ),
    "a question of a hundred kilobytes": result(b" " * 100_000, FrameKind.REFUSAL),
    "an error of two megabytes": result(b" " * 2_000_000, FrameKind.FAILURE),
    "notes about a hundred servers": many_servers,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_it_sends_the_table_is_set_aside_in_time(name: str, tmp_path: Path) -> None:
    access = Access(StoreConnection(S3Credentials("key", "secret"), gate=Gate()))
    with reader(tmp_path, HOSTILE[name]) as (processes, hostile):
        started_s = time.monotonic()
        first = processes.observe(access, TABLE, EMPTY)
        second = processes.observe(access, TABLE, EMPTY)
        took_s = time.monotonic() - started_s
        for observed in (first, second):
            assert observed.problem is not None
            assert observed.problem.reason in ("ReadingFailed", "ReaderUnavailable")
        assert second.problem is not None
        assert second.problem.reason == "ReadingFailed"
        assert not second.problem.is_transient
        assert took_s < 2 * DEADLINE_S + 3
        # Set aside: nobody is asked now.
        asked = len(hostile.asked)
        third = processes.observe(access, TABLE, EMPTY)
        assert (third.problem, len(hostile.asked)) == (second.problem, asked)


def test_a_process_that_sends_what_it_must_not_is_ended(tmp_path: Path) -> None:
    with reader(tmp_path, raw(b"garbage and more")) as (processes, hostile):
        processes.observe(Access(), TABLE, EMPTY)
        assert hostile.asked.count(FrameKind.KILL) == 2


def test_its_texts_are_masked(tmp_path: Path) -> None:
    note_secrets(["hunter2-hunter2"])
    problem = Problem("StorageUnavailable", "the server says hunter2-hunter2", 4, True)
    with reader(tmp_path, result(to_bytes(Observed, Observed(problem=problem)))) as (processes, _):
        seen = processes.observe(Access(), TABLE, EMPTY).problem
        assert seen is not None
        assert seen.message == "the server says ***"
    error = ReadingFailedError("refused", value="hunter2-hunter2")
    failure = result(to_bytes(Failure, error), FrameKind.FAILURE)
    (tmp_path / "hostile.sock").unlink()
    with reader(tmp_path, failure) as (processes, _):
        with pytest.raises(ReadingFailedError) as caught:
            processes.list_place(Access(), TABLE)
        assert "hunter2" not in str(caught.value)


def test_questions_are_answered_by_the_thread_that_waits(tmp_path: Path) -> None:
    gate, threads = Gate(), set[int]()

    def ask(channel: Channel, _: socket.socket) -> None:
        channel.send(FrameKind.NOTE, b'["store","http://one","timed out"]')
        hostile.ask(channel, FrameKind.REFUSAL, b'["store","http://one",true]')
        hostile.ask(channel, FrameKind.MAY_WRITE, b"")
        channel.send(FrameKind.RESULT, to_bytes(Observed, Observed()))

    access = Access(
        StoreConnection(S3Credentials("key", "secret"), gate=gate),
        may_write=lambda: threads.add(threading.get_ident()),
    )
    with reader(tmp_path, ask) as (processes, hostile):
        assert processes.observe(access, TABLE, EMPTY) == Observed()
        assert gate.heard == [("http://one", "timed out"), ("http://one", True)]
        assert hostile.answers == [b'"it is left alone"', b""]
        assert threads == {threading.get_ident()}


def test_a_leader_that_may_not_write_any_more_ends_the_call(tmp_path: Path) -> None:
    gate = Gate(error=LeadershipLostError("another leads"))

    def ask(channel: Channel, _: socket.socket) -> None:
        hostile.ask(channel, FrameKind.REFUSAL, b'["store","http://one",true]')

    access = Access(StoreConnection(S3Credentials("key", "secret"), gate=gate))
    with reader(tmp_path, ask) as (processes, hostile):
        with pytest.raises(LeadershipLostError):
            processes.remove(access, TABLE, Removal("uid", None))
        # It is no fault of the table.
        assert not processes.set_aside.is_alone(("table", "default", "people"))
        assert hostile.answers == []


def test_without_a_reader_every_table_waits_for_it(tmp_path: Path) -> None:
    processes = ReaderProcesses(FakeClock(), {}, socket_path=tmp_path / "none.sock")
    problem = processes.observe(Access(), TABLE, EMPTY).problem
    assert problem is not None
    assert problem.is_transient
    assert "is the container `reader` running?" in problem.message
    assert processes.set_aside.count == 0


def test_it_says_nothing_about_another_catalog_than_its_tables(tmp_path: Path) -> None:
    gate = Gate()
    access = Access(catalog_gate=gate, catalog_server="catalog http://mine")
    told = b'["catalog","catalog http://another","timed out"]'
    with reader(tmp_path, result(told, FrameKind.NOTE)) as (processes, _):
        problem = processes.observe(access, TABLE, EMPTY).problem
        assert problem is not None
        assert problem.reason == "ReadingFailed"
        assert gate.heard == []


def test_one_of_a_single_call_is_ended_after_its_answer(tmp_path: Path) -> None:
    answers = [b"garbage", to_bytes(Observed, Observed())]
    with reader(tmp_path, lambda channel, _: channel.send(FrameKind.RESULT, answers.pop(0))) as (
        processes,
        hostile,
    ):
        assert processes.observe(Access(), TABLE, EMPTY) == Observed()
        assert hostile.asked.count(FrameKind.KILL) == 2


def test_it_gets_a_few_tokens_a_call(tmp_path: Path) -> None:
    given: list[str] = []

    def read_token() -> str:
        given.append("token")
        return given[0]

    def ask(channel: Channel, _: socket.socket) -> None:
        while True:
            hostile.ask(channel, FrameKind.TOKEN, b"")

    identity = WebIdentity("https://sts", "arn:aws:iam::1:role/lake", read_token)
    with reader(tmp_path, ask) as (processes, hostile):
        observed = processes.observe(Access(StoreConnection(identity)), TABLE, EMPTY)
        assert observed.problem is not None
        assert observed.problem.reason == "ReadingFailed"
        assert len(given) == 2 * 16


def test_large_answers_of_one_namespace_keep_no_other_from_its_own(tmp_path: Path) -> None:
    def stalled(_: Channel, connection: socket.socket) -> None:
        connection.sendall(struct.pack("!cI", b"R", 2_000_000))
        time.sleep(10)

    def honest(channel: Channel, _: socket.socket) -> None:
        body = to_bytes(Observed, Observed())
        channel.send(FrameKind.RESULT, body + b" " * 2_000_000)

    metadata = replace(TABLE.resource.metadata, namespace="other")
    other = replace(TABLE, resource=replace(TABLE.resource, metadata=metadata))
    behaviours = [stalled] * 4
    with reader(tmp_path, lambda *given: (behaviours.pop() if behaviours else honest)(*given)) as (
        processes,
        _,
    ):
        hostile = [
            threading.Thread(target=processes.observe, args=(Access(), TABLE, EMPTY))
            for _ in range(4)
        ]
        for thread in hostile:
            thread.start()
        eventually(lambda: not behaviours, "all of them stall")
        assert processes.observe(Access(), other, EMPTY) == Observed()
        assert any(thread.is_alive() for thread in hostile)
        for thread in hostile:
            thread.join()


def test_a_claim_is_checked_by_a_process_that_has_read_nothing(tmp_path: Path) -> None:
    place = Location("s3://bucket/table")
    with reader(tmp_path, result(b"true")) as (processes, hostile):
        assert processes.may_write(Access(), TABLE, place, "uid")
        assert [candidate.is_single for candidate in hostile.opened] == [True]
        assert processes.may_write(Access(), TABLE, place, "uid")
        first, second = hostile.opened
        assert first.process != second.process
