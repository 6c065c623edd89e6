"""Tables that are fed by topics, under the controller: a real broker, a real API server, and the
operations carried out as pods do, with the Secret in their environment."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any

import pytest

import tideline
from tideline.ingest.operation.result import OperationResult
from tideline_operator.api_objects import SECRETS, Manifest
from tideline_operator.testing import carried_out
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.dead_endpoints import DeadEndpoints

pytest.importorskip("confluent_kafka")

from tideline.testing.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.api_server, pytest.mark.kafka]

USER, PASSWORD = "ingest", "spring-tide-of-2026"
SECRET = {"KAFKA_USERNAME": USER, "KAFKA_PASSWORD": PASSWORD}
NAME = "orders"


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = f"orders-{secrets.token_hex(4)}"
    kafka_broker.create_topic(name, 2)
    kafka_broker.add_user(USER, PASSWORD)
    return name


def produce(broker: KafkaBroker, topic: str, *numbers: int) -> None:
    records = ((str(number), json.dumps({"id": number, "ts": 1})) for number in numbers)
    broker.produce(topic, records)


def ingest(brokers: str, topic: str, **source: Any) -> dict[str, Any]:
    """What `declare` takes."""
    topics = {"format": "kafka", "brokers": brokers, "topics": [topic], **source}
    return {"ingest": [{"name": "feed", "source": topics, "trigger": {"every": "1s"}}]}


def signed(broker: KafkaBroker, topic: str) -> dict[str, Any]:
    return ingest(
        broker.scram_address,
        topic,
        protocol="SASL_PLAINTEXT",
        mechanism="SCRAM-SHA-512",
        credentials={"secretName": "broker"},
    )


def create_secret(case: ControllerCase, **content: str) -> None:
    carried_out.create_secret(case, "broker", content)


def carry_out(case: ControllerCase, job: Manifest, **variables: str) -> OperationResult:
    return carried_out.carry_out(case, job, variables, without=PASSWORD)


def rows(case: ControllerCase) -> list[int]:
    table = tideline.open(f"file://{case.folder}/{NAME}")
    return sorted(table.to_arrow().column("id").to_pylist())


def feed(case: ControllerCase) -> Manifest:
    return dict(case.status(NAME).get("ingest", {}).get("feed", {}))


def ready(case: ControllerCase) -> str:
    return str(case.condition("Ready", NAME).get("message"))


def test_records_become_rows_with_the_credentials_of_a_secret(
    case: ControllerCase, kafka_broker: KafkaBroker, topic: str
) -> None:
    produce(kafka_broker, topic, 1, 2, 3)
    case.declare(NAME, **signed(kafka_broker, topic))
    case.start()
    reason = case.until(lambda: case.condition("Ready", NAME).get("reason"), "a reason")
    assert reason == "SecretMissing"
    create_secret(case, **SECRET)
    carry_out(case, case.until_job("create"))
    job = case.until_job("ingest")
    assert feed(case)["lagRecords"] == 3
    references = {
        item["name"]: item["valueFrom"]["secretKeyRef"]["name"]
        for item in job["spec"]["template"]["spec"]["containers"][0]["env"]
        if item["name"].startswith("KAFKA_")
    }
    assert set(references.values()) == {"broker"}
    assert set(SECRET) < set(references)
    carry_out(case, job, **SECRET)
    case.until_ready(NAME)
    case.until(lambda: not feed(case).get("lagRecords"), "nothing waits")
    assert rows(case) == [1, 2, 3]
    produce(kafka_broker, topic, 3, 4)
    carry_out(case, case.until_job("ingest", but=(job["metadata"]["name"],)), **SECRET)
    case.until(lambda: rows(case) == [1, 2, 3, 4], "the next ones")
    assert PASSWORD not in json.dumps([case.table(NAME), case.event_notes(NAME)])


def test_a_table_never_signs_in_with_what_the_operator_has(
    case: ControllerCase, kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in SECRET.items():
        monkeypatch.setenv(name, text)
    content = signed(kafka_broker, topic)
    del content["ingest"][0]["source"]["credentials"]
    case.declare(NAME, **content)
    case.start()
    carry_out(case, case.until_job("create"))
    case.until(lambda: "KAFKA_USERNAME is not set" in ready(case), "none are there", timeout_s=30)
    assert not case.cluster.active_jobs()


def test_refused_credentials_are_a_condition_until_the_secret_is_right(
    case: ControllerCase, kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.secret_variables.FRESH_S", 0.5)
    produce(kafka_broker, topic, 1)
    create_secret(case, KAFKA_USERNAME=USER, KAFKA_PASSWORD="another-password")
    case.declare(NAME, **signed(kafka_broker, topic))
    case.start()
    carry_out(case, case.until_job("create"))
    refused = "the brokers refuse this client"
    case.until(lambda: refused in ready(case), "they are refused", timeout_s=30)
    assert "another-password" not in ready(case)
    right = base64.b64encode(PASSWORD.encode()).decode()
    case.api.patch(SECRETS, "broker", {"data": {"KAFKA_PASSWORD": right}}, case.namespace)
    carry_out(case, case.until_job("ingest"), **SECRET)
    assert rows(case) == [1]


def test_brokers_that_hang_hold_no_other_table_up(
    case: ControllerCase, kafka_broker: KafkaBroker, topic: str
) -> None:
    with DeadEndpoints(2) as dead:
        for number, url in enumerate(dead.urls):
            address = url.removeprefix("http://")
            case.declare(f"dead-{number}", **ingest(address, topic))
        controller = case.start(workers=2)
        case.until(lambda: controller.endpoints.unavailable, "they are left alone")
        began_s = time.monotonic()
        case.declare(NAME, **ingest(kafka_broker.address, topic))
        produce(kafka_broker, topic, 1)
        case.until_job("create")
        assert time.monotonic() - began_s < 20
        unavailable = controller.endpoints.unavailable
    assert {found.server.partition(" ")[0] for found in unavailable} == {"kafka"}


def test_offsets_that_are_gone_are_named(
    case: ControllerCase, kafka_broker: KafkaBroker, topic: str
) -> None:
    produce(kafka_broker, topic, 1, 2)
    case.declare(NAME, **ingest(kafka_broker.address, topic))
    case.start()
    carry_out(case, case.until_job("create"))
    carry_out(case, case.until_job("ingest"))
    case.until_ready(NAME)
    kafka_broker.delete_topic(topic)
    kafka_broker.create_topic(topic, 2)
    case.until(lambda: "deleted and created again" in ready(case), "the source is lost")
    assert case.condition("Ready", NAME)["reason"] == "SourceLost"
    case.until_event("SourceLost", NAME)
