"""Iceberg tables in a metastore that lies, forgets, and changes between two calls of a commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import (
    ConfigError,
    ConflictError,
    TableNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg_lake_table import IcebergLakeTable, create_iceberg, open_iceberg
from tideline.storage.named_places import SETTING

pytest.importorskip("pyiceberg")
pytest.importorskip("hive_metastore")

from hive_metastore import ttypes
from pyiceberg.exceptions import CommitFailedException

from tideline.hive.address import hive_addresses
from tideline.hive.connection import Connection
from tideline.iceberg.table.catalog_hive import _GuardedClient
from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.testing.hive_twin import HiveTwin

NAME = ("shop", "orders")
ALTER = "alter_table_with_environment_context"
SCHEMA = pa.schema([("id", pa.int64())])


@dataclass(frozen=True)
class Case:
    """A table of a metastore, its files in a folder."""

    twin: HiveTwin
    folder: Path

    def opened(self) -> IcebergLakeTable:
        return open_iceberg("shop.orders", catalog="hms")

    def ids(self) -> list[int]:
        return sorted(self.opened().to_arrow()["id"].to_pylist())

    @property
    def stored(self) -> Any:
        return self.twin.tables[NAME]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    with HiveTwin() as twin:
        monkeypatch.setenv("PYICEBERG_CATALOG__HMS__URI", twin.uri())
        monkeypatch.setenv(SETTING, tmp_path.as_uri())
        quick = {
            "commit.status-check.num-retries": "1",
            "commit.status-check.min-wait-ms": "1",
            "commit.retry.min-wait-ms": "1",
        }
        location = (tmp_path / "orders").as_uri()
        create_iceberg(
            "shop.orders", SCHEMA, catalog="hms", location=location, properties=quick
        ).append(rows(1))
        twin.contexts.clear()
        yield Case(twin, tmp_path)
        assert twin.locks == set(), "no lock is left"


def test_a_commit_names_the_metadata_that_it_replaces(case: Case) -> None:
    before = case.stored.parameters["metadata_location"]
    case.opened().append(rows(2))
    (context,) = case.twin.contexts
    assert context["expected_parameter_key"] == "metadata_location"
    assert context["expected_parameter_value"] == before
    assert case.stored.parameters["previous_metadata_location"] == before
    assert case.ids() == [1, 2]


def test_a_writer_without_a_lock_loses_nothing(case: Case) -> None:
    """The lock of ours has ended, and another writer commits before our change arrives."""

    def first() -> None:
        case.twin.locks.clear()
        case.opened().append(rows(2))

    case.twin.before[ALTER] = first
    case.opened().append(rows(3))
    assert case.ids() == [1, 2, 3]
    assert len(case.twin.contexts) == 3


def test_a_change_on_metadata_that_was_replaced_is_a_conflict(case: Case) -> None:
    """Whatever it leaves to be seen: the client says so itself."""
    _, alter = next(given for given in reversed(case.twin.asked) if given[0] == ALTER)
    with (
        Connection(hive_addresses(case.twin.uri()), _GuardedClient) as client,
        pytest.raises(CommitFailedException, match="The table has been modified"),
    ):
        client.alter_table_with_environment_context(
            *NAME, alter.new_tbl, ttypes.EnvironmentContext(properties={})
        )


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_a_connection_that_ends_in_a_change(is_done: bool, case: Case) -> None:
    answer = case.twin.answers[ALTER]

    def lost(asked: Any) -> Any:
        case.twin.answers[ALTER] = answer
        if is_done:
            answer(asked)
        raise ConnectionError

    case.twin.answers[ALTER] = lost
    if is_done:
        case.opened().append(rows(2))
    else:
        with pytest.raises(TidelineError, match="may have committed"):
            case.opened().append(rows(2))
    assert case.ids() == ([1, 2] if is_done else [1])
    case.opened().append(rows(3))


def test_a_lock_of_a_broken_connection_is_given_back_by_another(case: Case) -> None:
    def broken() -> None:
        raise ConnectionError

    case.twin.before["unlock"] = broken
    case.opened().append(rows(2))
    assert case.twin.locks == set()
    assert case.ids() == [1, 2]


def test_a_lock_that_cannot_be_given_back_undoes_no_commit(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    case.twin.answers["unlock"] = lambda _: b"\x80\x01\x00\x03what is this"
    with caplog.at_level(logging.WARNING):
        case.opened().append(rows(2))
    assert "a lock of Hive was not given back" in caplog.text
    assert case.ids() == [1, 2]
    case.twin.locks.clear()


def test_a_table_that_is_renamed_meanwhile_is_not_made_again(case: Case) -> None:
    def renamed() -> None:
        case.twin.tables["shop", "old"] = case.twin.tables.pop(NAME)

    table = case.opened()
    case.twin.before["lock"] = renamed
    with pytest.raises(TableNotFoundError, match="the catalog has no such table"):
        table.append(rows(2))
    assert NAME not in case.twin.tables


def test_another_table_of_the_name_is_left_alone(case: Case) -> None:
    def replaced() -> None:
        case.twin.tables["shop", "old"] = case.twin.tables.pop(NAME)
        location = (case.folder / "other").as_uri()
        create_iceberg("shop.orders", SCHEMA, catalog="hms", location=location)

    table = case.opened()
    case.twin.before["lock"] = replaced
    with pytest.raises(ConflictError, match="another table"):
        table.append(rows(2))
    assert case.ids() == []


def test_an_answer_about_another_table_is_not_committed_to(case: Case) -> None:
    other = (case.folder / "other").as_uri()
    create_iceberg("shop.other", SCHEMA, catalog="hms", location=other)
    table = case.opened()
    found = case.twin.tables["shop", "other"]
    case.twin.answers["get_table"] = lambda _: found
    with pytest.raises(TidelineError):
        table.append(rows(2))
    assert found.parameters.get("previous_metadata_location") is None


def test_what_is_refused_did_not_take_place(case: Case) -> None:
    case.twin.answers[ALTER] = lambda _: ttypes.InvalidOperationException("types differ")
    with pytest.raises(UnsupportedTableError, match=r"the catalog rejects the change.*differ"):
        case.opened().append(rows(2))
    assert case.ids() == [1]


def test_long_properties_stay_in_the_metadata(case: Case) -> None:
    case.opened().alter().set_properties({"note": "x" * 4001, "short": "y" * 4000}).commit()
    assert "note" not in case.stored.parameters
    assert case.stored.parameters["short"] == "y" * 4000
    assert case.opened().metadata.properties["note"] == "x" * 4001


def test_a_metastore_without_the_calls_is_named(case: Case) -> None:
    del case.twin.answers["get_table"]
    with pytest.raises(UnsupportedTableError, match=r"Hive 4\.0\.1 and later do.*type: rest"):
        case.opened()


def test_kerberos_is_refused_by_name(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__HMS__HIVE__KERBEROS_AUTHENTICATION", "true")
    count = len(case.twin.asked)
    with pytest.raises(ConfigError, match="Kerberos is not supported: name a metastore without"):
        case.opened()
    assert len(case.twin.asked) == count


def test_the_user_that_the_metastore_sees(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "of-the-process")
    monkeypatch.setenv("PYICEBERG_CATALOG__HMS__UGI", "orders:hadoop")
    case.twin.answers["set_ugi"] = lambda _: []
    case.opened().append(rows(2))
    asked = {(given.user_name, *given.group_names) for name, given in case.twin.asked
             if name == "set_ugi"}  # fmt: skip
    assert asked == {("orders", "hadoop")}


def test_tables_are_listed_without_those_of_others(case: Case) -> None:
    case.twin.tables["shop", "plain"] = ttypes.Table(dbName="shop", tableName="plain")
    catalog = open_catalog("hms")
    assert list(catalog.list_tables("shop")) == [NAME]
