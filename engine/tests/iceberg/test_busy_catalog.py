"""A REST catalog that is busy, or refuses: what a commit became is said as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import StorageUnavailableError, TableNotFoundError, UnsupportedTableError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.busy_server import ATTEMPTS_MAX, busy_wait_s
from tideline.iceberg.table.table_operations import CommitOutcome, Committed, Unknown, unknown_error
from tideline.storage.named_places import SETTING as EXTRA_LOCATIONS
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import TOKEN, Alteration, Answer, HostileCatalog, Received

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable

AT_ONCE = {"Retry-After": "0"}


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileCatalog]:
    monkeypatch.setenv(EXTRA_LOCATIONS, f"file://{tmp_path}")
    with HostileCatalog(f"file://{tmp_path}/orders") as catalog:
        yield catalog


def opened(catalog: HostileCatalog, name: str = "lake", **given: Any) -> CatalogTable:
    found = open_catalog(name, {"uri": catalog.url}, credentials={"token": TOKEN}, **given)
    return CatalogTable(found, "shop.orders", clock=FakeClock())


def commit(table: CatalogTable) -> CommitOutcome:
    return table.commit(table.load(), (), (SetProperties({"a": "b"}),))


def refusing(*statuses: int, headers: dict[str, str] | None = None) -> Alteration:
    """These statuses, one for each request, and the honest answer after them."""
    left = list(statuses)

    def answered(honest: Answer, request: Received) -> Answer:
        del request
        if not left:
            return honest
        error = {"error": {"message": "not now", "type": "Busy", "code": left[0]}}
        return replace(
            honest,
            status=left.pop(0),
            body=json.dumps(error).encode(),
            headers=AT_ONCE if headers is None else headers,
        )

    return answered


def sent(catalog: HostileCatalog, kind: str) -> int:
    return sum(request.kind == kind for request in catalog.received)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("kind", ["config", "table", "commit"])
def test_a_busy_catalog_is_waited_for(catalog: HostileCatalog, kind: str, status: int) -> None:
    catalog.alter(kind, refusing(status, status))
    assert isinstance(commit(opened(catalog)), Committed)
    assert sent(catalog, kind) == 3


def test_a_catalog_that_has_no_time_for_long_did_not_commit(catalog: HostileCatalog) -> None:
    catalog.alter("commit", refusing(*[429] * 99))
    with pytest.raises(StorageUnavailableError, match="did not take place: repeat it"):
        commit(opened(catalog))
    assert sent(catalog, "commit") == ATTEMPTS_MAX


@pytest.mark.parametrize(
    "statuses", [[503] * 99, [503, *[429] * 99], [503, 404], [503, 409], [503, 429, 422]]
)
def test_one_that_was_unavailable_may_have_committed(
    catalog: HostileCatalog, statuses: list[int]
) -> None:
    catalog.alter("commit", refusing(*statuses))
    assert isinstance(commit(opened(catalog)), Unknown)


def test_a_long_wait_is_not_taken(catalog: HostileCatalog) -> None:
    catalog.alter("commit", refusing(429, headers={"Retry-After": "86400"}))
    with pytest.raises(StorageUnavailableError, match="did not take place"):
        commit(opened(catalog, timeout_s=5.0))
    assert sent(catalog, "commit") == 1


def test_refusals_are_what_they_are(catalog: HostileCatalog) -> None:
    catalog.alter("commit", refusing(404, 422))
    table = opened(catalog)
    with pytest.raises(TableNotFoundError, match="no such table"):
        commit(table)
    with pytest.raises(UnsupportedTableError, match=r"rejects the change.*not now"):
        commit(table)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("lake", lambda _: "lake"),
        ("default", lambda catalog: catalog.url),
        ("house", lambda catalog: catalog.url),
    ],
)
def test_the_command_that_shows_the_outcome_names_the_catalog(
    catalog: HostileCatalog,
    name: str,
    shown: Callable[[HostileCatalog], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", catalog.url)
    catalog.alter("commit", refusing(500))
    outcome = commit(opened(catalog, name))
    assert isinstance(outcome, Unknown)
    error = unknown_error(outcome, table="s3://lake/orders", what="it was done")
    command = f"tideline iceberg show shop.orders --catalog {shown(catalog)}"
    assert f"`{command}`" in error.message


def test_waits_follow_the_server_and_double_without_a_word() -> None:
    def wait_s(text: str, attempt: int = 1, status: int = 429) -> float | None:
        return busy_wait_s(status, {"Retry-After": text} if text else {}, attempt, 1_000.0)

    assert [wait_s("", attempt) for attempt in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert wait_s("7") == 7.0
    assert wait_s(formatdate(1_030.0, usegmt=True)) == 30.0
    assert wait_s(formatdate(900.0, usegmt=True)) == 0.0
    assert wait_s("soon", 2) == 1.0
    assert wait_s("-3") == 0.5
    assert wait_s("1" * 400) == float("1" * 10)
    assert wait_s("1", ATTEMPTS_MAX) is None
    assert wait_s("1", status=500) is None
