"""Which tables of a LakeCatalog are maintained, and what their LakeTables are called."""

from __future__ import annotations

from typing import Any

import pytest

from tideline.iceberg.table.found_table import FoundTable
from tideline_operator.decide import catalog_plan
from tideline_operator.decide.catalog_plan import (
    TOO_MANY,
    is_included,
    plan_catalog,
    resource_name,
)
from tideline_operator.resources.lake_catalog import QUIET_FOR, LakeCatalog
from tideline_operator.resources.parsing import parse_object, to_json_object
from tideline_operator.resources.schedule import Duration

ORDERS, LINES = FoundTable(("sales", "orders")), FoundTable(("sales", "eu", "lines"))
SCRATCH, ODD = FoundTable(("tmp", "scratch")), FoundTable(("odd", "a b"), "its name is odd")


def lake_catalog(name: str = "lake", **spec: Any) -> LakeCatalog:
    content = {"location": "warehouse", **spec}
    return parse_object(LakeCatalog, {"metadata": {"name": name}, "spec": content})


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        ([], [], ["sales.eu.lines", "sales.orders", "tmp.scratch"]),
        (["sales.*"], [], ["sales.eu.lines", "sales.orders"]),
        (["*"], ["tmp.*", "*.eu.*"], ["sales.orders"]),
        (["*.order?", "tmp.[rs]cratch"], [], ["sales.orders", "tmp.scratch"]),
        (["SALES.*"], [], []),
        (["sales.orders"], ["sales.orders"], []),
    ],
)
def test_patterns_choose_tables(include: list[str], exclude: list[str], names: list[str]) -> None:
    spec = lake_catalog(include=include, exclude=exclude).spec
    plan = plan_catalog(spec, (ORDERS, LINES, SCRATCH))
    assert [table.name for table in plan.wanted] == names
    assert plan.excluded == 3 - len(names)
    assert plan.found == 3
    assert [name for name in names if not is_included(spec, name)] == []


def test_tables_that_cannot_be_maintained_say_why_unless_they_are_excluded() -> None:
    assert plan_catalog(lake_catalog().spec, (ODD, ORDERS)).left == {"odd.a b": "its name is odd"}
    plan = plan_catalog(lake_catalog(exclude=["odd.*"]).spec, (ODD, ORDERS))
    assert (plan.left, plan.excluded) == ({}, 1)


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_plan, "TABLES_MAX", 1)
    plan = plan_catalog(lake_catalog().spec, (ORDERS, LINES))
    assert plan.wanted == (LINES,)
    assert plan.left == {"sales.orders": TOO_MANY}


def test_names_are_those_of_kubernetes_and_differ() -> None:
    catalog = lake_catalog()
    assert resource_name(catalog, LINES, set()) == "lake-sales-eu-lines"
    assert resource_name(catalog, FoundTable(("Sales", "Order_Items")), set()) == (
        "lake-sales-order-items"
    )
    first = resource_name(catalog, FoundTable(("a_b", "c")), {"lake-a-b-c"})
    second = resource_name(catalog, FoundTable(("a", "b_c")), {"lake-a-b-c"})
    assert first.startswith("lake-a-b-c-") and second.startswith("lake-a-b-c-") and first != second
    long = resource_name(catalog, FoundTable(("n" * 60, "t" * 60)), set())
    assert len(long) == 63
    for name in (first, second, long, resource_name(catalog, FoundTable(("日本", "表")), {"lake"})):
        lake_catalog(name)


def test_a_table_has_the_policy_of_its_catalog() -> None:
    services = {"rewriteDataFiles": {"minInputFiles": 3}, "mode": "Advise"}
    catalog = lake_catalog(storeRef="minio", services=services, suspend=True)
    table = catalog.table("lake-sales-orders", ("sales", "orders"))
    assert to_json_object(table.spec) == {
        "format": "Iceberg",
        "location": "warehouse/sales/orders",
        "storeRef": "minio",
        "services": {**services, "quietFor": "10m"},
        "suspend": True,
    }
    assert QUIET_FOR.ms == Duration.parse("10m").ms
    own = lake_catalog(services={"quietFor": "1h"}).table("a", ("b", "c"))
    assert str(own.spec.services.quiet_for) == "1h"


def test_a_table_of_a_catalog_is_named_there() -> None:
    given = {"type": "rest", "uri": "https://catalog", "credentials": {"secretName": "token"}}
    catalog = parse_object(LakeCatalog, {"metadata": {"name": "lake"}, "spec": {"catalog": given}})
    table = catalog.table("lake-sales-orders", ("sales", "orders"))
    assert to_json_object(table.spec)["catalog"] == {**given, "table": "sales.orders"}
