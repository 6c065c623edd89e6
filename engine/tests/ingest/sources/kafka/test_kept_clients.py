"""Clients of brokers that are kept for the next use, and those that are not."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.kafka import clients
from tideline.ingest.sources.kafka.broker import look_at, read_records
from tideline.ingest.sources.kafka.clients import Complaints, KeptClients
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.ingest.sources.source import Limits
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

NOBODY = Credentials.of({})


class Client:
    """What is made of settings; `events` happen when it is polled."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.is_closed = False
        self.events: list[Any] = []

    def poll(self, seconds: float) -> None:  # noqa: ARG002
        for event in self.events:
            self.settings["error_cb"](event)
        self.events = []

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def kept() -> Iterator[KeptClients]:
    found = KeptClients()
    yield found
    found.close()


def used(kept: KeptClients, **settings: str) -> Client:
    with kept.used(Client, settings, Complaints(NOBODY)) as client:
        assert isinstance(client, Client)
        return client


def test_one_client_serves_uses_of_the_same_settings(kept: KeptClients) -> None:
    first = used(kept, user="a")
    assert used(kept, user="a") is first
    assert used(kept, user="b") is not first


def test_a_client_has_one_use_at_a_time(kept: KeptClients) -> None:
    with kept.used(Client, {}, Complaints(NOBODY)) as first:
        assert used(kept) is not first


def test_a_client_whose_use_failed_is_closed(kept: KeptClients) -> None:
    with (
        pytest.raises(StorageUnavailableError),
        kept.used(Client, {}, Complaints(NOBODY)) as first,
    ):
        raise StorageUnavailableError("no answer")
    assert first.is_closed
    assert used(kept) is not first


def test_what_happened_between_two_uses_is_no_complaint_of_the_second(kept: KeptClients) -> None:
    first = used(kept)
    first.events = ["broker down"]
    complaints = Complaints(NOBODY)
    with kept.used(Client, {}, complaints) as again:
        assert again is first
        assert not first.events
    assert complaints.newest == ""


def test_a_client_that_nobody_uses_is_closed() -> None:
    kept = KeptClients(kept_s=0.05)
    first = used(kept)
    until_s = time.monotonic() + 10
    while not first.is_closed:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    assert used(kept) is not first
    kept.close()


def test_a_forked_process_has_none_of_its_parents_and_ends_none(kept: KeptClients) -> None:
    first = used(kept)
    child = os.fork()
    if child == 0:
        kept.forget()
        was_other = used(kept) is not first
        kept.close()
        os._exit(0 if was_other and not first.is_closed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert used(kept) is first


@pytest.mark.kafka
def test_ranges_are_read_by_one_client_and_none_has_records_of_another(
    kafka_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: KeptClients
) -> None:
    monkeypatch.setattr(clients, "_KEPT", kept)
    sources: list[DeclaredKafka] = []
    for number in range(2):
        topic = f"kept-{number}-{secrets.token_hex(4)}"
        kafka_broker.create_topic(topic, 2)
        for partition in range(2):
            rows = values((n, 1, f"{number}/{partition}") for n in range(40))
            kafka_broker.produce(topic, rows, partition=partition)
        feed = TopicFeed.of(tmp_path, kafka_broker.address, topic)
        sources.append(replace(feed.source, records_max=7))
    for source in sources * 2:
        position = None
        seen: list[int] = []
        while True:
            available = look_at(source, NOBODY, position, asks_age=False)
            planned = available.plan(position, Limits(1, 0))
            if not isinstance(planned, KafkaRange):
                break
            for batch in read_records(source, planned):
                seen += [json.loads(text)["id"] for text in batch.values if text is not None]
            position = available.advance(position, planned)
        assert sorted(seen) == sorted([*range(40), *range(40)])
    made = [key[0].__name__ for key, idle in kept._idle.items() for _ in idle]
    assert sorted(made) == ["AdminClient", "Consumer"]
    (consumer,) = (dict(key[1]) for key in kept._idle if key[0].__name__ == "Consumer")
    # A request at the end of a range delays the first of the next by as much.
    assert consumer["fetch.wait.max.ms"] == clients.FETCH_WAIT_MS < 50
