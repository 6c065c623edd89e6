"""A REST catalog that remembers changes by their keys: each is done once, however often sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.idempotency import CONFIG_FIELD, HEADER, Remembered, new_key
from tideline.iceberg.table.table_operations import CommitOutcome, Committed, Unknown
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import Answer, Received

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.testing.served_catalog import ServedCatalog, refusal

NAME = "shop.orders"


class RememberingCatalog(ServedCatalog):
    """`faults` are what commits meet after they were done: a status, or 0 for no answer."""

    def __init__(self, lifetime: str | None = "PT30M") -> None:
        super().__init__()
        self.lifetime = lifetime
        self.faults: list[int] = []
        self.answers: dict[str, Answer] = {}
        self.reply = self._meet

    def keys(self, kind: str = "commit") -> list[str | None]:
        """Those of requests, in their order."""
        return [asked.headers.get(HEADER) for asked in self.received if asked.kind == kind]

    def _meet(self, request: Received) -> Answer:
        if request.kind == "config":
            said = {} if self.lifetime is None else {CONFIG_FIELD: self.lifetime}
            return Answer().saying({"defaults": {}, "overrides": {}, **said})
        if request.kind != "commit":
            return self.honest(request)
        key = request.headers.get(HEADER)
        answer = self.answers.get(key) if key else None
        if answer is None:
            answer = self.honest(request)
        if key:
            self.answers[key] = answer
        if not self.faults:
            return answer
        fault = self.faults.pop(0)
        return refusal(fault, "ServerError") if fault else Answer(lost=True)


@pytest.fixture
def catalog() -> Iterator[RememberingCatalog]:
    with RememberingCatalog() as catalog:
        catalog.create(NAME)
        yield catalog


def table_of(catalog: RememberingCatalog) -> CatalogTable:
    opened = open_catalog("lake", {"uri": catalog.url}, timeout_s=5.0)
    return CatalogTable(opened, NAME, clock=FakeClock())


def commit(table: CatalogTable, value: str = "b") -> CommitOutcome:
    return table.commit(table.load(), (), (SetProperties({"a": value}),))


@pytest.mark.parametrize("faults", [[500], [502], [504], [0], [503, 0, 502]])
def test_a_change_is_sent_again_and_done_once(
    catalog: RememberingCatalog, faults: list[int]
) -> None:
    catalog.faults = list(faults)
    assert isinstance(commit(table_of(catalog)), Committed)
    keys = catalog.keys()
    assert len(keys) == len(faults) + 1
    assert len(set(keys)) == 1
    assert len(catalog.applied) == 1


def test_each_change_has_a_key_of_its_own_and_reads_have_none(catalog: RememberingCatalog) -> None:
    table = table_of(catalog)
    commit(table)
    commit(table, "c")
    first, second = catalog.keys()
    assert first is not None
    assert second is not None
    assert first != second
    assert {uuid.UUID(first).version, uuid.UUID(second).version} == {7}
    assert {*catalog.keys("table"), *catalog.keys("config")} == {None}


@pytest.mark.parametrize("lifetime", [None, "soon", "PT", "P1Y", "PT0S"])
def test_a_server_that_remembers_nothing_gets_no_key(lifetime: str | None) -> None:
    with RememberingCatalog(lifetime) as catalog:
        catalog.create(NAME)
        catalog.faults = [500]
        assert isinstance(commit(table_of(catalog)), Committed), "the table shows the change"
        assert catalog.keys() == [None]


def test_a_change_is_not_sent_again_when_its_key_is_forgotten(catalog: RememberingCatalog) -> None:
    catalog.lifetime = "PT0.9S"
    catalog.faults = [500] * 9
    commit(table_of(catalog))
    assert catalog.keys() == [None]
    catalog.lifetime = "PT1S"
    catalog.received.clear()
    catalog.faults = [500] * 9
    commit(table_of(catalog), "c")
    assert 1 <= len(catalog.keys()) <= 5
    assert len(set(catalog.keys())) == 1


def test_a_server_that_never_says_leaves_it_unknown(catalog: RememberingCatalog) -> None:
    catalog.reply = lambda request: (
        refusal(500, "ServerError") if request.kind == "commit" else catalog._meet(request)
    )
    assert isinstance(commit(table_of(catalog)), Unknown)


@pytest.mark.parametrize("is_done", [True, False])
def test_an_answer_that_is_not_read_refuses_nothing(
    catalog: RememberingCatalog, is_done: bool
) -> None:
    """Where it was done, the next answer may be of before."""
    secret = "a-vended-secret-that-nobody-has-noted"
    older: list[Answer] = []

    def unread(request: Received) -> Answer:
        if request.kind == "table" and older:
            return older.pop()
        if request.kind != "commit":
            return catalog._meet(request)
        if is_done:
            older.append(catalog.honest(replace(request, kind="table")))
            catalog.honest(request)
        return Answer().saying({"config": {"s3.secret-access-key": secret}})

    catalog.reply = unread
    found = commit(table_of(catalog))
    if is_done:
        assert isinstance(found, Committed)
        assert len(catalog.applied) == 1
        return
    assert isinstance(found, Unknown)
    assert "Field required" in found.reason
    assert secret[-12:] not in found.reason


def test_lifetimes_and_keys() -> None:
    remembered = Remembered()
    for text, seconds in {
        "PT30M": 1_800, "P1DT2H3M4.5S": 93_784, "PT24H": 86_400, "P": 0, "-PT5M": 0, "PT1e9S": 0,
    }.items():  # fmt: skip
        remembered.take({CONFIG_FIELD: text})
        assert remembered.seconds == seconds, text
    remembered.take([CONFIG_FIELD])
    assert remembered.seconds == 0
    assert new_key(0x017F22E279B0, bytes(10)) == "017f22e2-79b0-7000-8000-000000000000"
