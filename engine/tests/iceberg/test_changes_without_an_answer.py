"""A catalog that changes a definition and does not answer: what became of it is found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.iceberg.evolution.columns import AddColumn, DropColumn
from tideline.iceberg.evolution.execute import execute_changes
from tideline.iceberg.evolution.partitioning import AddPartitionField, SetSortOrder
from tideline.iceberg.evolution.properties import SetTableProperties
from tideline.iceberg.evolution.refs import CreateRef, DropRef
from tideline.iceberg.evolution.step import Step
from tideline.iceberg.table.table_operations import CommitOutcome, Committed, Unknown
from tideline.testing.fake_clock import FakeClock

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from tideline.iceberg.table.catalog_table import CatalogTable

NAME = "lake.orders"
ROWS = pa.table({"id": [1, 2], "region": ["EU", "US"]})


class Silent(SqlCatalog):
    """Its next commit is made, or not, then something else happens, and no answer comes."""

    then: Callable[[], Any] | None = None
    is_lost = False

    def commit_table(self, *args: Any, **kwargs: Any) -> Any:
        then, self.then = self.then, None
        if then is None:
            return super().commit_table(*args, **kwargs)
        if not self.is_lost:
            super().commit_table(*args, **kwargs)
        then()
        raise CommitStateUnknownException("no answer")


@pytest.fixture
def catalog(tmp_path: Path) -> Silent:
    opened = Silent("test", uri=f"sqlite:///{tmp_path}/catalog.db")
    opened.create_namespace("lake")
    opened.create_table(NAME, ROWS.schema, location=f"file://{tmp_path}/orders").append(ROWS)
    return opened


def change(catalog: Silent, *steps: Step) -> CommitOutcome | None:
    table = CatalogTable(catalog, NAME, clock=FakeClock())
    return execute_changes(table, steps, clock=FakeClock()).outcome


def nothing() -> None:
    """No other writer."""


@pytest.mark.parametrize(
    "step",
    [
        AddColumn("x", "int"),
        AddPartitionField("region"),
        SetSortOrder("id desc"),
        SetTableProperties({"a": "b"}),
        CreateRef("audit", "branch"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_change_that_took_place_is_recognised(catalog: Silent, step: Step) -> None:
    catalog.then = nothing
    assert isinstance(change(catalog, step), Committed)
    assert len(catalog.load_table(NAME).schema().fields) == 2 + isinstance(step, AddColumn)


def test_a_definition_is_recognised_after_the_next_change(catalog: Silent) -> None:
    catalog.then = lambda: change(catalog, DropColumn("x"))
    assert isinstance(change(catalog, AddColumn("x", "int")), Committed)


def test_a_branch_that_is_gone_again_may_have_been_there(catalog: Silent) -> None:
    catalog.then = lambda: change(catalog, DropRef("audit", "branch"))
    outcome = change(catalog, CreateRef("audit", "branch"))
    assert isinstance(outcome, Unknown)


def test_a_change_that_did_not_take_place_is_not_taken_for_one(catalog: Silent) -> None:
    catalog.is_lost, catalog.then = True, nothing
    outcome = change(catalog, AddColumn("x", "int"))
    assert isinstance(outcome, Unknown)
    assert len(catalog.load_table(NAME).schema().fields) == 2
    assert isinstance(change(catalog, AddColumn("x", "int")), Committed)
