"""Tables that are fed by tables of Postgres, under the controller: a real server, a real API
server, and the operations carried out as pods do, with the Secret in their environment."""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any

import pytest

import tideline
from tideline.ingest.operation.result import OperationResult
from tideline_operator.api_objects import SECRETS, Manifest
from tideline_operator.testing import carried_out
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.dead_endpoints import DeadEndpoints

pytest.importorskip("psycopg")

from tideline.testing.postgres_server import (
    NO_CHECKPOINTS,
    PASSWORD,
    PostgresDatabase,
    fill_log,
    own_server,
)

pytestmark = [pytest.mark.api_server, pytest.mark.postgres]

NAME = "orders"


def ingest(slot: str, secret: str = "database", **source: Any) -> dict[str, Any]:
    """What `declare` takes."""
    table = {
        "format": "postgres",
        "table": "orders",
        "slot": slot,
        "credentials": {"secretName": secret},
        **source,
    }
    feed = {"name": "feed", "source": table, "trigger": {"every": "1s"}}
    return {"ingest": [feed], "ordering": []}


def create_secret(case: ControllerCase, uri: str, name: str = "database") -> None:
    carried_out.create_secret(case, name, {"POSTGRES_URI": uri})


def carry_out(case: ControllerCase, job: Manifest, uri: str) -> OperationResult:
    return carried_out.carry_out(case, job, {"POSTGRES_URI": uri}, without=PASSWORD)


def carry_out_until(case: ControllerCase, uri: str, wanted: list[tuple[int, int]]) -> None:
    """One Job after the other, until the table has these rows."""
    done: list[str] = []
    while rows(case) != wanted:
        job = case.until_job("ingest", but=tuple(done))
        done.append(job["metadata"]["name"])
        carry_out(case, job, uri)


def carry_out_until_reserved(case: ControllerCase, uri: str) -> None:
    """What lets the slot move may be in log that comes after the rows."""
    done: list[str] = []

    def is_reserved() -> bool:
        job = case.startable_job("ingest", but=tuple(done))
        if job is not None:
            done.append(job["metadata"]["name"])
            carry_out(case, job, uri)
        return feed(case).get("slotState") == "reserved"

    case.until(is_reserved, "the slot moved")


def rows(case: ControllerCase) -> list[tuple[int, int]]:
    table = tideline.open(f"file://{case.folder}/{NAME}").to_arrow()
    return sorted(zip(*(table.column(name).to_pylist() for name in ("id", "ts")), strict=True))


def feed(case: ControllerCase) -> Manifest:
    return dict(case.status(NAME).get("ingest", {}).get("feed", {}))


def ready(case: ControllerCase) -> str:
    return str(case.condition("Ready", NAME).get("message"))


def test_rows_and_changes_come_with_the_connection_of_a_secret(
    case: ControllerCase, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POSTGRES_URI")
    postgres.execute(
        "create table orders (id bigint primary key, ts bigint)",
        "insert into orders values (1, 1), (2, 1), (3, 1)",
    )
    case.declare(NAME, **ingest(postgres.slot))
    case.start()
    reason = case.until(lambda: case.condition("Ready", NAME).get("reason"), "a reason")
    assert reason == "SecretMissing"
    create_secret(case, postgres.uri)
    carry_out(case, case.until_job("create"), postgres.uri)
    job = case.until_job("ingest")
    references = {
        item["name"]: item["valueFrom"]["secretKeyRef"]["name"]
        for item in job["spec"]["template"]["spec"]["containers"][0]["env"]
        if item["name"].startswith("POSTGRES_")
    }
    assert set(references.values()) == {"database"}
    assert "POSTGRES_URI" in references
    slots = (
        f"select confirmed_flush_lsn from pg_replication_slots where slot_name = '{postgres.slot}'"
    )
    assert postgres.execute(slots) == [], "the operator only looks"
    carry_out_until(case, postgres.uri, [(1, 1), (2, 1), (3, 1)])
    (before,) = postgres.execute(slots)
    postgres.execute("update orders set ts = 2 where id = 1", "delete from orders where id = 3")
    carry_out_until(case, postgres.uri, [(1, 2), (2, 1)])
    case.until_ready(NAME)
    case.until(lambda: not feed(case).get("lagRecords"), "nothing waits")
    (after,) = postgres.execute(slots)
    assert before != after, "the slot moves"
    assert PASSWORD not in json.dumps([case.table(NAME), case.event_notes(NAME)])


def test_a_table_never_connects_with_what_the_operator_has(
    case: ControllerCase, postgres: PostgresDatabase
) -> None:
    """Its environment has the variable."""
    assert os.environ["POSTGRES_URI"]
    content = ingest(postgres.slot)
    del content["ingest"][0]["source"]["credentials"]
    case.declare(NAME, **content)
    case.start()
    carry_out(case, case.until_job("create"), postgres.uri)
    case.until(lambda: "POSTGRES_URI is not set" in ready(case), "none is there", timeout_s=30)
    assert not case.cluster.active_jobs()


@pytest.mark.slow
def test_a_refused_connection_is_a_condition_until_the_secret_is_right(
    case: ControllerCase, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.secret_variables.FRESH_S", 0.5)
    postgres.execute("create table orders (id bigint primary key, ts bigint)")
    create_secret(case, postgres.server.uri(postgres.name, password="another-password"))
    case.declare(NAME, **ingest(postgres.slot))
    case.start()
    carry_out(case, case.until_job("create"), postgres.uri)
    refused = "the server refuses this client: password authentication failed"
    case.until(lambda: refused in ready(case), "it is refused", timeout_s=30)
    assert "another-password" not in ready(case)
    right = base64.b64encode(postgres.uri.encode()).decode()
    case.api.patch(SECRETS, "database", {"data": {"POSTGRES_URI": right}}, case.namespace)
    carry_out(case, case.until_job("ingest"), postgres.uri)


def test_a_server_that_hangs_holds_no_other_table_up(
    case: ControllerCase, postgres: PostgresDatabase
) -> None:
    postgres.execute("create table orders (id bigint primary key, ts bigint)")
    create_secret(case, postgres.uri)
    with DeadEndpoints(2) as dead:
        for number, url in enumerate(dead.urls):
            address = url.removeprefix("http://")
            create_secret(case, f"postgresql://a:b@{address}/x", f"dead-{number}")
            case.declare(f"dead-{number}", **ingest(f"dead_{number}", f"dead-{number}"))
        controller = case.start(workers=2)
        case.until(lambda: controller.endpoints.unavailable, "they are left alone")
        began_s = time.monotonic()
        case.declare(NAME, **ingest(postgres.slot))
        case.until_job("create")
        assert time.monotonic() - began_s < 20
        unavailable = controller.endpoints.unavailable
    assert {found.server for found in unavailable} == {"postgres POSTGRES_URI"}


def test_a_slot_that_is_gone_is_named(case: ControllerCase, postgres: PostgresDatabase) -> None:
    postgres.execute(
        "create table orders (id bigint primary key, ts bigint)", "insert into orders values (1, 1)"
    )
    create_secret(case, postgres.uri)
    case.declare(NAME, **ingest(postgres.slot))
    case.start()
    carry_out(case, case.until_job("create"), postgres.uri)
    carry_out_until(case, postgres.uri, [(1, 1)])
    case.until_ready(NAME)
    postgres.execute(f"select pg_drop_replication_slot('{postgres.slot}')")
    case.until(lambda: "there is no slot" in ready(case), "the source is lost")
    case.until_event("SourceLost", NAME)
    until_s = time.monotonic() + 2.5
    while time.monotonic() < until_s:
        assert case.condition("Ready", NAME)["reason"] == "SourceLost", "it does not come and go"
        time.sleep(0.05)


def test_a_slot_that_is_about_to_be_given_up_is_named_and_what_waits_has_an_age(
    case: ControllerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"max_slot_wal_keep_size": "64MB"}
    with own_server(**NO_CHECKPOINTS, **settings) as server, PostgresDatabase(server) as database:
        monkeypatch.setenv("POSTGRES_URI", database.uri)
        database.execute(
            "create table orders (id bigint primary key, ts bigint)",
            "insert into orders values (1, 1)",
        )
        create_secret(case, database.uri)
        case.declare(NAME, **ingest(database.slot))
        case.start()
        carry_out(case, case.until_job("create"), database.uri)
        carry_out_until(case, database.uri, [(1, 1)])
        case.until(lambda: feed(case).get("slotState") == "reserved", "the slot is known")
        assert "oldestRecordAt" not in feed(case)
        database.execute("insert into orders values (2, 2)")
        fill_log(database, 40, 40)
        job = case.until_job("ingest")
        case.until(lambda: feed(case).get("slotState") == "unreserved", "it is unreserved")
        case.until(lambda: feed(case).get("oldestRecordAt"), "the age is known")
        assert feed(case)["retainedBytes"] > 64 * 1024 * 1024
        case.until(
            lambda: case.condition("Healthy", NAME).get("reason") == "SlotAtRisk", "it is named"
        )
        case.until_event("SlotAtRisk", NAME)
        carry_out(case, job, database.uri)
        carry_out_until(case, database.uri, [(1, 1), (2, 2)])
        carry_out_until_reserved(case, database.uri)
        case.until(lambda: case.condition("Healthy", NAME)["status"] == "True", "it is healthy")
        case.until(lambda: "oldestRecordAt" not in feed(case), "nothing waits")
