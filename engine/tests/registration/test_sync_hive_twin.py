"""Tables registered in a metastore that lies, forgets, and changes between two calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.errors import (
    ConfigError,
    ConflictError,
    StorageUnavailableError,
    UnsupportedTableError,
)

pytest.importorskip("hive_metastore")

from hive_metastore import ttypes

from tideline.registration.hive import HiveMetastore
from tideline.registration.metastore import RegisteredPartition
from tideline.registration.table_name import TableName
from tideline.testing.hive_twin import HiveTwin

NAME = ("shop", "trips")
ALTER = "alter_table_with_environment_context"


@dataclass(frozen=True)
class Case:
    """A Hudi table with partitions, and a metastore."""

    twin: HiveTwin
    table: tideline.LakeTable

    def write(self, *days: str, **columns: Any) -> Any:
        rows = {"id": list(range(len(days))), "day": list(days), "v": [1] * len(days), **columns}
        return self.table.write(pa.table(rows), "upsert")

    def sync(self, **given: Any) -> Any:
        (done,) = self.table.sync(hive=self.twin.uri(), database="shop", name="trips", **given)
        return done.tables[0]

    @property
    def stored(self) -> Any:
        return self.twin.tables[NAME]

    @property
    def days(self) -> list[str]:
        return [values[0] for values in self.twin.names(*NAME)]


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.delenv("TIDELINE_HIVE_URI", raising=False)
    with HiveTwin() as twin:
        table = tideline.create(str(tmp_path / "trips"), record_key="id", partition_by="day")
        yield Case(twin, table)


def test_a_table_is_created_followed_and_altered(case: Case) -> None:
    case.write("a", "b")
    done = case.sync()
    assert (done.is_created, done.partitions_added) == (True, 2)
    case.stored.owner = "them"
    case.stored.parameters["note"] = "theirs"
    case.write("a", "c", w=[1.5, 2.5])
    done = case.sync()
    assert (done.is_altered, done.partitions_added) == (True, 1)
    assert case.days == ["a", "b", "c"]
    assert (case.stored.owner, case.stored.parameters["note"]) == ("them", "theirs")
    assert [column.name for column in case.stored.sd.cols][-1] == "w"
    cascading = [context for context in case.twin.contexts if context.get("CASCADE") == "true"]
    assert len(cascading) == 1
    assert all(context["DO_NOT_UPDATE_STATS"] == "true" for context in case.twin.contexts)
    assert not case.sync().is_changed
    case.table.delete_partitions("c")
    assert case.sync().partitions_dropped == 1
    assert case.days == ["a", "b"]


def test_each_change_names_the_position_that_it_saw(case: Case) -> None:
    case.write("a")
    case.sync()
    seen = case.stored.parameters["last_commit_time_sync"]
    case.write("b")
    case.sync()
    context = case.twin.contexts[-1]
    assert context["expected_parameter_key"] == "last_commit_time_sync"
    assert context["expected_parameter_value"] == seen


def test_another_that_was_first_is_seen_in_the_change(case: Case) -> None:
    """Between the look at the table and its change: only Hive's transaction can know."""
    case.write("a")
    case.sync()
    case.write("b")
    theirs = "20200101000000000"

    def first() -> None:
        case.stored.parameters["last_commit_time_sync"] = theirs

    case.twin.before[ALTER] = first
    case.sync()
    assert case.stored.parameters["last_commit_time_sync"] > theirs
    assert case.days == ["a", "b"]


def test_what_another_sync_undid_while_partitions_were_sent_is_done_again(case: Case) -> None:
    case.write("a", "b")
    case.sync()
    case.write("b", "c", w=[1.5, 2.5])

    def theirs() -> None:
        case.stored.parameters["last_commit_time_sync"] = "20200101000000000"
        del case.twin.partitions[NAME]["b",]

    case.twin.before["add_partitions_req"] = theirs
    case.sync()
    assert case.days == ["a", "b", "c"]


def test_a_table_that_is_dropped_and_made_again_meanwhile_is_compared_as_a_whole(
    case: Case,
) -> None:
    case.write("a", "b")
    case.sync()
    case.write("c")

    def dropped() -> None:
        del case.twin.tables[NAME]
        case.twin.partitions.pop(NAME)

    case.twin.before["add_partitions_req"] = dropped
    with pytest.raises(StorageUnavailableError):
        case.sync()
    assert case.sync().is_created
    assert case.days == ["a", "b", "c"]


def test_a_table_that_was_renamed_is_registered_again(case: Case) -> None:
    case.write("a")
    case.sync()
    case.twin.tables["shop", "old"] = case.twin.tables.pop(NAME)
    case.twin.tables["shop", "old"].tableName = "old"
    case.twin.partitions["shop", "old"] = case.twin.partitions.pop(NAME)
    assert case.sync().is_created
    assert case.twin.names("shop", "old") == case.twin.names(*NAME) == [("a",)]


def test_others_that_are_always_first_are_a_conflict(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.retry.RetryPolicy.attempts", lambda *_: range(3))
    case.write("a")
    case.sync()
    case.write("b")
    case.twin.answers[ALTER] = lambda _: ttypes.MetaException("The table has been modified. x")
    with pytest.raises(ConflictError, match="were always first"):
        case.sync()


def test_partitions_that_were_not_asked_for_are_left_alone(case: Case) -> None:
    case.write("a", "b")
    case.sync()
    others = case.twin.partitions[NAME]["b",]
    case.write("a", "c")
    case.twin.answers["get_partitions_by_names"] = lambda _: [others]
    case.sync()
    assert case.days == ["a", "b", "c"]
    place = RegisteredPartition(("a",), "s3://elsewhere")
    metastore = HiveMetastore.at(case.twin.uri())
    table = metastore.table(TableName(*NAME))
    assert table is not None
    metastore.move_partitions(table, [place])
    assert others.sd.location.endswith("/b")


def answering(found: Any, _: Any) -> Any:
    return found


LIES: dict[str, Any] = {
    "no descriptor": ttypes.Table(dbName="shop", tableName="trips", parameters={}),
    "no names": ttypes.Table(sd=ttypes.StorageDescriptor()),
    "nothing": ttypes.Table(),
    "another": ttypes.Table(dbName="shop", tableName="other", sd=ttypes.StorageDescriptor()),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_about_nothing_is_an_error(lie: str, case: Case) -> None:
    case.write("a")
    case.twin.answers["get_table"] = lambda _: LIES[lie]
    with pytest.raises((StorageUnavailableError, UnsupportedTableError)) as caught:
        case.sync()
    assert "metastore" in str(caught.value)


def test_a_partition_without_a_place_is_an_error(case: Case) -> None:
    case.write("a")
    case.sync()
    for given in (ttypes.Partition(), ttypes.Partition(values=["a"])):
        case.twin.answers["get_partitions_by_names"] = partial(answering, [given])
        with pytest.raises(StorageUnavailableError, match="metastore"):
            case.sync(all_partitions=True)


def test_what_is_refused_and_what_fails_are_two_things(case: Case) -> None:
    case.write("a")
    case.twin.answers["create_table"] = lambda _: ttypes.InvalidObjectException("no such type")
    with pytest.raises(ConfigError, match="the metastore refuses: no such type"):
        case.sync()
    case.twin.answers["create_table"] = lambda _: ttypes.MetaException("the database is down")
    with pytest.raises(StorageUnavailableError, match="the database is down"):
        case.sync()
    del case.twin.answers["get_table"]
    with pytest.raises(UnsupportedTableError, match=r"Hive 4\.0\.1 and later do"):
        case.sync()


def test_two_that_create_it_at_once_both_end(case: Case) -> None:
    case.write("a")

    def first() -> None:
        case.sync()

    case.twin.before["create_database"] = first
    done = case.sync()
    assert not done.is_created
    assert case.days == ["a"]
    assert NAME in case.twin.tables


def test_the_user_that_the_metastore_sees(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "trips")
    case.twin.answers["set_ugi"] = lambda _: []
    case.write("a")
    case.sync()
    assert case.stored.owner == "trips"
    asked = [given.user_name for name, given in case.twin.asked if name == "set_ugi"]
    assert set(asked) == {"trips"}
