"""What a reading process does with one call, over a pair of sockets within this one."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from tideline.clock import SystemClock
from tideline.errors import StorageUnavailableError, TidelineError
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.remote.identity import IdentityError
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.web_identity import WebIdentity
from tideline.testing.patience import PATIENCE_S
from tideline_operator.decide.observed import Observed
from tideline_operator.reading.access import Access, ConnectionPool, HandedAccess, StoreKeys
from tideline_operator.reading.calls import STORE_GATE, Failure, Handed, Observe, ReadingFailedError
from tideline_operator.reading.child import serve_call
from tideline_operator.reading.codec import from_bytes, to_bytes
from tideline_operator.reading.frames import Channel, FrameKind
from tideline_operator.reading.table_reading import TableReading
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.testing.table_states import EMPTY, resolved

SERVER = "http://one"
TABLE = resolved()
KEYS = StoreKeys("s3", S3Credentials("key", "secret"))
Look = Callable[[Access], None]


class Looking(TableReading):
    """Runs a test's function in place of a look."""

    def __init__(self, look: Look) -> None:
        super().__init__(SystemClock())
        self._look = look

    def observe(
        self,
        access: Access,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        del table, status
        self._look(access)
        return Observed(running=running)


class Conversation:
    """One call of a process; this side is the controller's."""

    def __init__(self, look: Look, keys: StoreKeys = KEYS) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        self.raised: list[BaseException] = []
        self._theirs, self._look = Channel(theirs), look
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self.channel.receive(0)[0] is FrameKind.HELLO
        call = Observe(TABLE, EMPTY, frozenset({"x"}))
        handed = Handed(call, HandedAccess(keys), (STORE_GATE,))
        self.channel.send(FrameKind.CALL, to_bytes(Handed, handed))

    def _serve(self) -> None:
        try:
            serve_call(self._theirs, Looking(self._look), ConnectionPool())
        except BaseException as error:
            self.raised.append(error)
        self._theirs.close()

    def failure(self) -> TidelineError:
        kind, body = self.channel.receive(100_000)
        assert kind is FrameKind.FAILURE
        error: TidelineError = from_bytes(Failure, body)
        return error

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


Begin = Callable[..., Conversation]


@pytest.fixture
def begin() -> Iterator[Begin]:
    talks: list[Conversation] = []

    def begin(look: Look, keys: StoreKeys = KEYS) -> Conversation:
        talks.append(Conversation(look, keys))
        return talks[-1]

    yield begin
    for talk in talks:
        talk.channel.close()
        talk.join()


def exits(_: Access) -> None:
    sys.exit(3)


def recurses(access: Access) -> None:
    recurses(access)


@pytest.mark.parametrize(("look", "named"), [(exits, "SystemExit"), (recurses, "RecursionError")])
def test_what_nobody_expects_is_an_error_of_the_table(begin: Begin, look: Look, named: str) -> None:
    error = begin(look).failure()
    assert type(error) is ReadingFailedError
    assert named in str(error)


def test_without_memory_the_process_has_to_end(begin: Begin) -> None:
    def look(_: Access) -> None:
        raise MemoryError

    talk = begin(look)
    talk.join()
    assert [type(error) for error in talk.raised] == [MemoryError]


def test_the_controller_is_asked_before_a_request_and_told_afterwards(begin: Begin) -> None:
    def look(access: Access) -> None:
        assert access.connection is not None
        gate = access.connection.gate
        assert gate is not None
        assert gate.refusal(SERVER, writes=True) == "no"
        gate.note(SERVER, "timed out")
        access.may_write()

    talk = begin(look)
    kind, body = talk.channel.receive(1000)
    assert (kind, body) == (FrameKind.REFUSAL, b'["store","http://one",true]')
    talk.channel.send(FrameKind.ANSWER, b'"no"')
    kind, body = talk.channel.receive(1000)
    assert (kind, body) == (FrameKind.NOTE, b'["store","http://one","timed out"]')
    assert talk.channel.receive(1000)[0] is FrameKind.MAY_WRITE
    talk.channel.send(FrameKind.ANSWER)
    kind, body = talk.channel.receive(1000)
    assert (kind, from_bytes(Observed, body)) == (
        FrameKind.RESULT,
        Observed(running=frozenset({"x"})),
    )


def test_a_call_that_was_given_up_writes_nothing_more(begin: Begin) -> None:
    refused: list[BaseException] = []

    def look(access: Access) -> None:
        try:
            access.may_write()
        except StorageUnavailableError as error:
            refused.append(error)
            raise

    talk = begin(look)
    assert talk.channel.receive(1000)[0] is FrameKind.MAY_WRITE
    talk.channel.close()
    talk.join()
    assert len(refused) == 1


def test_a_token_is_asked_for_whenever_credentials_are_fetched(begin: Begin) -> None:
    tokens: list[str] = []

    def look(access: Access) -> None:
        assert access.connection is not None
        identity = access.connection.credentials
        assert isinstance(identity, WebIdentity)
        tokens.append(identity.token())
        with pytest.raises(IdentityError, match="no token"):
            identity.token()

    talk = begin(look, StoreKeys("s3", sts_url="http://sts", role_arn="arn:role"))
    for answer in (b'[true,"abc"]', b'[false,"no token"]'):
        assert talk.channel.receive(1000)[0] is FrameKind.TOKEN
        talk.channel.send(FrameKind.ANSWER, answer)
    assert talk.channel.receive(100_000)[0] is FrameKind.RESULT
    assert tokens == ["abc"]


class Gate:
    def refusal(self, server: str, *, writes: bool) -> str | None:
        del server, writes
        return None

    def note(self, server: str, problem: str | None) -> None:
        del server, problem


def no_token() -> str:
    raise OSError("none")


def test_calls_at_the_same_time_have_connections_of_their_own_which_are_kept() -> None:
    pool = ConnectionPool()
    with pool.connection(KEYS, Gate(), no_token) as first:
        with pool.connection(KEYS, Gate(), no_token) as second:
            assert first is not second
        assert first.gate is not None
        assert first.gate.refusal(SERVER, writes=False) is None
        assert second.gate is not None
        # A thread that a call has left behind sends nothing more.
        assert second.gate.refusal(SERVER, writes=False) == "the call has ended"
    with pool.connection(KEYS, Gate(), no_token) as again:
        assert again in (first, second)
    rotated = StoreKeys("s3", S3Credentials("key", "rotated"))
    with pool.connection(rotated, Gate(), no_token) as other:
        assert other not in (first, second)
        assert isinstance(other.credentials, S3Credentials)
        assert other.credentials.secret_access_key == "rotated"


def test_keys_are_those_of_the_connection_and_are_not_shown() -> None:
    connection = StoreConnection(S3Credentials("key", "hunter2", "token"), ca_certificates=b"PEM")
    keys = StoreKeys.of(connection)
    assert keys.keys == connection.credentials
    assert (keys.authorities, keys.limits) == ("PEM", connection.limits)
    handed = Handed(Observe(TABLE, EMPTY, frozenset()), HandedAccess(keys), ())
    assert "hunter2" not in repr(keys) + repr(handed) + repr(handed.access)
