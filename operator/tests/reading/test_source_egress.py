"""The ways to brokers: every address is checked, those that brokers name among them."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Mechanism, Protocol
from tideline.ingest.sources.kafka.wire.fields import compact_text, int8, int16, int32, sized, text
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.storage.egress.proxy import EgressProxy
from tideline.testing.egress_case import PATIENT
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.token_server import CLIENT, SECRET, token_server
from tideline.trust.addresses import AddressRules
from tideline_operator.reading.access import Access, SourceAccess
from tideline_operator.reading.calls import SOURCE_GATE
from tideline_operator.reading.codec import to_bytes
from tideline_operator.reading.frames import FrameError, FrameKind
from tideline_operator.reading.questions import Questions

ADDRESSES = {
    "broker.example": "127.0.0.1",
    "metadata.example": "169.254.169.254",
    "inside.example": "10.0.0.9",
}


class Gate:
    """Keeps what is noted, and refuses for a reason."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        self.problems: list[str | None] = []

    def refusal(self, server: str, *, writes: bool) -> str | None:  # noqa: ARG002
        return self.reason

    def note(self, server: str, problem: str | None) -> None:  # noqa: ARG002
        self.problems.append(problem)


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    rules = AddressRules.of("127.0.0.0/8")

    def resolve(host: str, _: int) -> tuple[str, tuple[str, ...]]:
        return host, (ADDRESSES.get(host, host),)

    running = EgressProxy(rules, resolve=resolve, limits=PATIENT).start()
    yield running
    running.close()


class LyingBroker:
    """One that says that the leader of the topic is elsewhere."""

    def __init__(self, leader: str) -> None:
        self.leader = leader
        self.asked: list[int] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._server:
            made, _ = self._server.accept()
        with made:
            for _ in range(2):
                if not (head := made.recv(4, socket.MSG_WAITALL)):
                    return
                (size,) = struct.unpack(">i", head)
                api, _, number = struct.unpack_from(">hhi", made.recv(size, socket.MSG_WAITALL))
                self.asked.append(api)
                body = _METADATA_ONLY if api == 18 else _cluster(self.leader, self.port)
                made.sendall(sized(int32(number) + (b"" if api == 18 else b"\0") + body))


_METADATA_ONLY = int16(0) + int32(1) + int16(3) + int16(0) + int16(12)


def _cluster(leader: str, port: int) -> bytes:
    broker = int32(7) + compact_text(leader) + int32(port) + b"\0\0"
    partition = int16(0) + int32(0) + int32(7) + int32(0) + b"\1\1\1" + b"\0"
    topic = int16(0) + compact_text("orders") + bytes(16) + int8(0) + b"\2" + partition
    head = int32(0) + b"\2" + broker + b"\0" + int32(7)
    return head + b"\2" + topic + int32(0) + b"\0" + b"\0"


def look(proxy: EgressProxy, brokers: str, gate: Gate | None = None) -> None:
    source = DeclaredKafka(brokers=brokers, topics=("orders",), schema=())
    access = Access(
        egress=proxy.of("lake"), sources=SourceAccess({}, (source.server,), gate or Gate())
    )
    with access.reaching(source, has_credentials=True) as reach:
        source.positions(reach, None)


@pytest.mark.parametrize("host", ["metadata.example", "inside.example", "169.254.169.254"])
def test_no_broker_is_at_an_address_that_is_refused(proxy: EgressProxy, host: str) -> None:
    gate = Gate()
    with pytest.raises(StorageUnavailableError, match="that is not connected to"):
        look(proxy, f"{host}:9092", gate)
    assert "that is not connected to" in str(gate.problems)


@pytest.mark.parametrize("leader", ["metadata.example", "inside.example", "10.96.0.1"])
def test_no_broker_leads_to_an_address_that_is_refused(proxy: EgressProxy, leader: str) -> None:
    lying = LyingBroker(leader)
    with pytest.raises(StorageUnavailableError, match=f"{leader}.* that is not connected to"):
        look(proxy, f"broker.example:{lying.port}")
    assert lying.asked == [18, 3]


@pytest.mark.parametrize("host", ["metadata.example", "inside.example", "10.96.0.1"])
def test_no_token_endpoint_is_at_an_address_that_is_refused(proxy: EgressProxy, host: str) -> None:
    """Nor is anything of the process's own environment used for it."""
    lying = LyingBroker("broker.example")
    source = DeclaredKafka(
        brokers=f"broker.example:{lying.port}",
        topics=("orders",),
        schema=(),
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
    )
    variables = {
        "KAFKA_CLIENT_ID": "reader",
        "KAFKA_CLIENT_SECRET": "of-the-secret",
        "KAFKA_TOKEN_URL": f"http://{host}/token",
    }
    access = Access(
        egress=proxy.of("lake"), sources=SourceAccess(variables, (source.server,), Gate())
    )
    words = rf"token endpoint {host} does not answer: .*that is not connected to"
    with (
        pytest.raises(StorageUnavailableError, match=words) as caught,
        access.reaching(source, has_credentials=True) as reach,
    ):
        source.positions(reach, None)
    assert "of-the-secret" not in str(caught.value)
    assert lying.asked == []


@pytest.mark.kafka
def test_a_real_broker_takes_a_token_that_came_through_the_proxy(
    proxy: EgressProxy, kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the process's own environment is asked or shown."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("KAFKA_CLIENT_SECRET", "of-the-operator")
    topic = f"through-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    port = kafka_broker.token_address.rpartition(":")[2]
    source = DeclaredKafka(
        brokers=f"broker.example:{port}",
        topics=(topic,),
        schema=(),
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
    )
    with token_server() as server:
        variables = {
            "KAFKA_CLIENT_ID": CLIENT,
            "KAFKA_CLIENT_SECRET": SECRET,
            "KAFKA_TOKEN_URL": f"http://broker.example:{server.port}/token",
        }
        access = Access(
            egress=proxy.of("lake"), sources=SourceAccess(variables, (source.server,), Gate())
        )
        with access.reaching(source, has_credentials=True) as reach:
            found = source.positions(reach, None)
        assert len(found.partitions) == 1
        assert len(server.asked) == 1


@pytest.mark.parametrize("address", ["a b:1", "x\r\nHost: y:1", "broker.example:70000", ":9"])
def test_an_address_that_is_none_is_not_passed_on(proxy: EgressProxy, address: str) -> None:
    with pytest.raises(StorageUnavailableError):
        look(proxy, address)


def test_brokers_that_are_left_alone_are_not_asked(proxy: EgressProxy) -> None:
    lying = LyingBroker("broker.example")
    with pytest.raises(StorageUnavailableError, match="timed out before"):
        look(proxy, f"broker.example:{lying.port}", Gate("timed out before"))
    assert lying.asked == []


@pytest.mark.parametrize(
    "server",
    [
        *("host=metadata.example", "host=inside.example", "host=10.96.0.1", "host=169.254.169.254"),
        "host=database.example hostaddr=10.0.0.9",
        "host=inside.example,metadata.example",
        "host=[::ffff:10.0.0.1]",
    ],
)
def test_no_server_of_postgres_is_at_an_address_that_is_refused(
    proxy: EgressProxy, server: str
) -> None:
    gate = Gate()
    source = DeclaredPostgres(table="orders", slot="s", publication="p")
    variables = {"POSTGRES_URI": f"{server} user=u password=of-the-secret"}
    access = Access(
        egress=proxy.of("lake"), sources=SourceAccess(variables, (source.server,), gate)
    )
    with (
        pytest.raises(StorageUnavailableError, match=r"not connected to|is not one") as caught,
        access.reaching(source, has_credentials=True) as reach,
    ):
        source.positions(reach, None)
    assert "of-the-secret" not in f"{caught.value} {gate.problems}"
    assert gate.problems != [None]


def test_only_sources_with_credentials_get_the_secrets_values() -> None:
    source = DeclaredKafka(brokers="broker:9092", topics=("orders",), schema=())
    access = Access(sources=SourceAccess({"KAFKA_PASSWORD": "of-the-secret"}))
    with access.reaching(source, has_credentials=False) as reach:
        assert dict(reach.variables) == {}
    with access.reaching(source, has_credentials=True) as reach:
        assert dict(reach.variables) == {"KAFKA_PASSWORD": "of-the-secret"}
        assert "of-the-secret" not in f"{reach!r} {access!r} {access.sources!r}"


def test_a_reading_process_asks_about_its_tables_brokers_alone() -> None:
    gate = Gate()
    questions = Questions(Access(sources=SourceAccess({}, ("kafka broker:9092",), gate)))
    kind = tuple[str, str, str | None]
    mine = to_bytes(kind, (SOURCE_GATE, "kafka broker:9092", "timed out"))
    questions.answer(FrameKind.NOTE, mine)
    another = to_bytes(kind, (SOURCE_GATE, "kafka other:9092", "timed out"))
    with pytest.raises(FrameError, match="another source"):
        questions.answer(FrameKind.NOTE, another)
    assert gate.problems == ["timed out"]


def test_texts_have_their_length() -> None:
    assert text("ab") == b"\0\2ab"
