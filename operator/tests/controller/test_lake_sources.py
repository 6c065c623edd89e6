"""LakeSources in the cluster: a real server of Postgres, a real API server, and operations carried
out as pods do. Each table has a LakeTable, and the slot moves behind all of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tideline
from tideline.ingest.sources.postgres.lsn import parse_lsn
from tideline_operator.api_objects import LAKE_SOURCES, LAKE_TABLES, Manifest
from tideline_operator.controller import owner_kinds, owner_reconcile
from tideline_operator.decide import planner
from tideline_operator.testing import carried_out
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

pytest.importorskip("psycopg")

from tideline.testing.postgres_server import PASSWORD, PostgresDatabase

pytestmark = [pytest.mark.api_server, pytest.mark.postgres]

ORDERS, ITEMS = "shop-public-orders", "shop-public-items"
TABLE = "create table {} (id bigint primary key, n bigint)"


class SourceCase(ControllerCase):
    """LakeSources about one database."""

    def declare_source(self, slot: str, name: str = "shop", **postgres: Any) -> None:
        """Create a LakeSource, or change it."""
        manifest: Manifest = {
            "apiVersion": LAKE_SOURCES.api_version,
            "kind": LAKE_SOURCES.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "location": f"file://{self.folder}/{name}",
                "every": "1s",
                "postgres": {
                    "include": ["public.*"],
                    "exclude": ["*_tmp"],
                    "slot": slot,
                    "credentials": {"secretName": "database"},
                    **postgres,
                },
                "table": {"type": "MERGE_ON_READ"},
                "trigger": {"every": "1s"},
            },
        }
        found = self.api.get(LAKE_SOURCES, name, self.namespace)
        if found is None:
            self.api.create(LAKE_SOURCES, manifest, self.namespace)
            return
        # No replacement: the operator writes the status meanwhile, and it would be stale.
        self.api.patch(LAKE_SOURCES, name, {"spec": manifest["spec"]}, self.namespace)

    def source(self, name: str = "shop") -> Manifest:
        found = self.api.get(LAKE_SOURCES, name, self.namespace)
        assert found is not None
        return found

    def until_condition(self, reason: str, name: str = "shop") -> Manifest:
        """Its condition Ready, once it has this reason."""

        def found() -> Manifest:
            conditions = (self.source(name).get("status") or {}).get("conditions", ())
            ready = [condition for condition in conditions if condition["type"] == "Ready"]
            return next((item for item in ready if item["reason"] == reason), {})

        ready: Manifest = self.until(found, reason)
        return ready

    def owned(self, name: str = "shop") -> dict[str, Manifest]:
        found, _ = self.api.list(LAKE_TABLES, self.namespace, labels=f"tideline.dev/source={name}")
        return {item["metadata"]["name"]: item for item in found}

    def until_owned(self, *names: str) -> dict[str, Manifest]:
        self.until(lambda: sorted(self.owned()) == sorted(names), f"LakeTables {names}")
        return self.owned()

    def reason(self, name: str) -> str:
        """Why the LakeTable of this name is not ready."""
        conditions = (self.owned()[name].get("status") or {}).get("conditions", ())
        return next((item["reason"] for item in conditions if item["type"] == "Ready"), "")

    def carry_out_until(self, uri: str, wanted: dict[str, list[int]]) -> None:
        """Jobs as they come, until the tables have these numbers."""
        done: list[str] = []
        while {name: self.numbers(name) for name in wanted} != wanted:
            job = self.until_job(but=tuple(done))
            done.append(job["metadata"]["name"])
            carried_out.carry_out(self, job, {"POSTGRES_URI": uri}, without=PASSWORD)

    def numbers(self, name: str) -> list[int]:
        path = self.folder / "shop/public" / name
        if not (path / ".hoodie/hoodie.properties").exists():
            return []
        found = tideline.open(f"file://{path}").to_arrow()
        return sorted(found.column("n").to_pylist()) if "n" in found.column_names else []


@pytest.fixture
def case(
    api_server: ApiServer, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SourceCase]:
    monkeypatch.setattr(planner, "OBSERVE_RETRY_MS", 1_000)
    monkeypatch.setattr(owner_reconcile, "RETRY_S", 1.0)
    monkeypatch.setattr(owner_kinds, "_MOVE_EVERY_S", 1.0)
    with SourceCase(api_server, namespace, tmp_path) as case:
        yield case


def confirmed(database: PostgresDatabase) -> int:
    ((text,),) = database.execute(
        "select confirmed_flush_lsn::text from pg_replication_slots"
        f" where slot_name = '{database.slot}'"
    )
    return parse_lsn(text)


def test_each_table_gets_a_laketable_and_the_slot_moves_behind_all_of_them(
    case: SourceCase, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POSTGRES_URI")
    postgres.execute(
        *(TABLE.format(name) for name in ("orders", "items", "orders_tmp")),
        "create table keyless (n bigint)",
        "insert into orders values (1, 1), (2, 2)",
        "insert into items values (1, 10)",
    )
    case.declare_source(postgres.slot)
    case.start()
    case.until_condition("SecretMissing")
    assert case.owned() == {}
    carried_out.create_secret(case, "database", {"POSTGRES_URI": postgres.uri})
    tables = case.until_owned(ORDERS, ITEMS)
    (owner,) = tables[ORDERS]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("LakeSource", "shop", True)
    assert tables[ORDERS]["spec"]["recordKey"] == ["id"]
    case.until_condition("Listed")
    status = case.source()["status"]
    assert (status["found"], status["excluded"]) == (4, 1)
    assert "no primary key" in json.dumps(status["left"])
    case.carry_out_until(postgres.uri, {"orders": [1, 2], "items": [10]})
    held = confirmed(postgres)
    postgres.execute("insert into orders values (3, 3)", "update items set n = 11")
    case.carry_out_until(postgres.uri, {"orders": [1, 2, 3], "items": [11]})
    case.until(lambda: confirmed(postgres) > held, "the slot moves")
    postgres.execute(TABLE.format("late"), "insert into late values (1, 5)")
    case.until_owned(ORDERS, ITEMS, "shop-public-late")
    case.carry_out_until(postgres.uri, {"late": [5], "orders": [1, 2, 3]})
    postgres.execute("drop table late")
    case.until_owned(ORDERS, ITEMS)
    assert case.numbers("late") == [5], "the table stays"
    assert PASSWORD not in json.dumps([case.source(), *case.owned().values()])


def test_a_server_that_is_away_and_a_slot_that_is_taken_leave_laketables(
    case: SourceCase, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POSTGRES_URI")
    postgres.execute(TABLE.format("orders"))
    carried_out.create_secret(case, "database", {"POSTGRES_URI": postgres.uri})
    case.declare_source(postgres.slot)
    case.start()
    before = case.until_owned(ORDERS)
    case.until_condition("Listed")
    # Which of two is older is known by the second.
    time.sleep(1.1)
    # The variable that is the default is the same one.
    case.declare_source(postgres.slot, "other", connectionVariable="POSTGRES_URI")
    taken = case.until_condition("SlotTaken", "other")
    assert f"{postgres.slot} is LakeSource shop's: give it another one" in taken["message"]
    assert case.owned("other") == {}
    away = "host=127.0.0.1 port=1 dbname=shop user=lake"
    carried_out.create_secret(case, "away", {"POSTGRES_URI": away})
    case.declare_source(postgres.slot, credentials={"secretName": "away"})
    case.until_condition("StorageUnavailable")
    uid = before[ORDERS]["metadata"]["uid"]
    assert case.owned()[ORDERS]["metadata"]["uid"] == uid
    # With another secret it is another server's slot: the younger source has it now.
    case.until_condition("Listed", "other")
    case.until(lambda: len(case.owned("other")) == 1, "the LakeTable of the other one")


def test_a_laketable_that_a_person_wrote_is_left_alone(
    case: SourceCase, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POSTGRES_URI")
    postgres.execute(TABLE.format("orders"), TABLE.format("items"))
    carried_out.create_secret(case, "database", {"POSTGRES_URI": postgres.uri})
    case.declare("own", location=f"file://{case.folder}/shop/public/orders", ingest=[])
    case.declare_source(postgres.slot)
    case.start()
    case.until_owned(ITEMS)
    case.until(
        lambda: case.source().get("status", {}).get("leftToOthers") == 1, "one is left to others"
    )
    case.declare_source(postgres.slot, exclude=["*"])
    case.until_owned()
    assert case.api.get(LAKE_TABLES, "own", case.namespace) is not None


def test_a_table_whose_log_is_lost_is_copied_again_beside_the_others(
    case: SourceCase, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a number in its own LakeTable, which the LakeSource leaves there."""
    monkeypatch.delenv("POSTGRES_URI")
    postgres.execute(
        *(TABLE.format(name) for name in ("orders", "items")),
        "insert into orders values (1, 1), (2, 2)",
        "insert into items values (1, 10)",
    )
    carried_out.create_secret(case, "database", {"POSTGRES_URI": postgres.uri})
    case.declare_source(postgres.slot)
    case.start()
    case.carry_out_until(postgres.uri, {"orders": [1, 2], "items": [10]})
    postgres.execute(
        "drop table orders", TABLE.format("orders"), "insert into orders values (2, 20), (3, 30)"
    )
    case.until(lambda: case.reason(ORDERS) == "SourceLost", "the log is lost")
    held = confirmed(postgres)
    postgres.execute("insert into items values (2, 11)")
    case.carry_out_until(postgres.uri, {"orders": [1, 2], "items": [10, 11]})
    case.change(ORDERS, {"spec": {"resync": {"postgres": 1}}})
    case.carry_out_until(postgres.uri, {"orders": [20, 30], "items": [10, 11]})
    postgres.execute("insert into orders values (4, 40)", "insert into items values (3, 12)")
    case.carry_out_until(postgres.uri, {"orders": [20, 30, 40], "items": [10, 11, 12]})
    case.until(lambda: confirmed(postgres) > held, "the slot moves")
    case.until_condition("Listed")
    assert case.owned()[ORDERS]["spec"]["resync"] == {"postgres": 1}
