"""A table is renamed at any moment, and another one created in its folder under the old name.

Whatever verb was at work: the renamed table keeps every file that a snapshot of it leads to, the
new one its own, and the verb ends with a conflict unless it was done before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.erasure.iceberg_rows import erase_iceberg_rows
from tideline.errors import ConflictError, TidelineError, UnsupportedTableError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_data_files.in_process import engine_for
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.services.rewrite_position_deletes.execute import execute_position_deletes
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import CommitOutcome, Replaced, committed_location
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import TOKEN, Answer, Received
from tideline.testing.iceberg_audit import empty_and_create_anew, referenced, stored
from tideline.testing.iceberg_delete_table import DeleteTable
from tideline.testing.iceberg_model import IcebergModel

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.testing.served_catalog import ServedCatalog, ServedModel

NAME, RENAMED = "lake.orders", "lake.orders_old"
COLUMNS = pa.schema([("id", pa.int64())])
ROWS = [*range(3), *range(4, 22)]
SNAPSHOTS = 5
EVERYTHING = ExpireOptions(older_than_ms=2**62)


class RenamingCatalog(SqlCatalog):
    """Replaces the table before the call of this number, or after that commit, whose reply may then
    be lost."""

    replaces_before = 0
    replaces_after_commit = False
    reply: Exception | None = None
    calls = 0

    def load_table(self, identifier: Any) -> Any:
        self.count(identifier)
        return super().load_table(identifier)

    def commit_table(self, table: Any, *given: Any) -> Any:
        self.count(NAME)
        response = super().commit_table(table, *given)
        if self.replaces_after_commit:
            self.replaces_after_commit = False
            replace_table(self)
            if self.reply is not None:
                raise self.reply
        return response

    def count(self, identifier: Any) -> None:
        if identifier == NAME:
            self.calls += 1
            if self.calls == self.replaces_before:
                replace_table(self)


def replace_table(catalog: RenamingCatalog) -> None:
    catalog.replaces_before = 0
    location = SqlCatalog.load_table(catalog, NAME).location()
    catalog.rename_table(NAME, RENAMED)
    SqlCatalog.create_table(catalog, NAME, COLUMNS, location=location)
    plain(catalog).load_table(NAME).append(pa.table({"id": [100]}))


def plain(catalog: SqlCatalog) -> SqlCatalog:
    """The same catalog, whose calls replace nothing."""
    return SqlCatalog(catalog.name, **catalog.properties)


class Lake:
    def __init__(self, folder: Path) -> None:
        self.catalog = RenamingCatalog(
            "test", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}"
        )
        self.catalog.create_namespace("lake")
        table = self.catalog.create_table(NAME, COLUMNS)
        for start in (0, 10):
            table.append(pa.table({"id": list(range(start, start + 10))}))
        table.delete("id = 3")
        for number in (20, 21):
            table.append(pa.table({"id": [number]}))
        self.catalog.calls = 0

    def open(self) -> CatalogTable:
        return CatalogTable(self.catalog, NAME, clock=FakeClock())

    def snapshots_read(self, name: str) -> int:
        """How many snapshots there are; each is read."""
        table = plain(self.catalog).load_table(name)
        for snapshot in table.metadata.snapshots:
            table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        return len(table.metadata.snapshots)

    def rows(self, name: str) -> list[int]:
        return sorted(plain(self.catalog).load_table(name).scan().to_arrow()["id"].to_pylist())


def expire(operations: CatalogTable) -> CommitOutcome | None:
    return execute_expire(operations, EVERYTHING).outcome


def rewrite(operations: CatalogTable) -> CommitOutcome | None:
    options = RewriteOptions.parse({"rewrite-all": "true"}, properties={})
    rewrite_data_files(
        IcebergTable(operations), options, engine_for(options, pytest.fail), clock=FakeClock()
    )
    return None


def rewrite_in_parts(operations: CatalogTable) -> CommitOutcome | None:
    settings = {
        "rewrite-all": "true",
        "partial-progress.enabled": "true",
        "partial-progress.max-failed-commits": "0",
    }
    options = RewriteOptions.parse(settings, properties={})
    rewrite_data_files(
        IcebergTable(operations), options, engine_for(options, pytest.fail), clock=FakeClock()
    )
    return None


def manifests(operations: CatalogTable) -> CommitOutcome | None:
    return execute_manifests(operations, ManifestOptions(), clock=FakeClock()).outcome


def orphans(operations: CatalogTable) -> CommitOutcome | None:
    options = OrphanOptions(older_than_ms=2**62, is_forced=True)
    execute_orphans(operations, plan_orphans(operations, options))
    return None


VERBS = [expire, rewrite, rewrite_in_parts, manifests, orphans]
Verb = Callable[[CatalogTable], CommitOutcome | None]


def assert_whole(lake: Lake) -> None:
    assert lake.rows(RENAMED) == ROWS
    assert lake.snapshots_read(RENAMED) >= 1
    assert lake.rows(NAME) == [100]
    assert lake.snapshots_read(NAME) == 1


def outcome_of(run: Callable[[], CommitOutcome | None]) -> str:
    """How a verb ends for its caller."""
    try:
        committed_location(run(), table=NAME)
    except TidelineError as error:
        return error.kind
    return "done"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_rename_before_any_call_is_a_conflict(verb: Verb, tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    rehearsal = Lake(tmp_path / "0")
    assert outcome_of(partial(verb, rehearsal.open())) == "done"
    assert rehearsal.catalog.calls >= 2
    for number in range(2, rehearsal.catalog.calls + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        lake = Lake(folder)
        lake.catalog.replaces_before = number
        operations = lake.open()
        assert outcome_of(partial(verb, operations)) == "Conflict", number
        assert_whole(lake)


@pytest.mark.slow_with(
    "expire-CommitStateUnknownException",
    "expire-NoneType",
    "manifests-CommitFailedException",
    "manifests-NoneType",
    "rewrite-CommitFailedException",
    "rewrite-CommitStateUnknownException",
    "rewrite_in_parts-CommitStateUnknownException",
    "rewrite_in_parts-NoneType",
)
@pytest.mark.parametrize(
    "reply",
    [None, CommitStateUnknownException("gateway timeout"), CommitFailedException("sent twice")],
    ids=lambda reply: type(reply).__name__,
)
@pytest.mark.parametrize("verb", VERBS[:-1], ids=lambda verb: verb.__name__)
def test_a_rename_after_the_commit_leaves_what_it_needs(
    verb: Verb, reply: Exception | None, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    lake.catalog.replaces_after_commit, lake.catalog.reply = True, reply
    looks_again = reply is not None or verb is expire
    assert outcome_of(partial(verb, lake.open())) == ("Conflict" if looks_again else "done")
    assert_whole(lake)
    assert lake.snapshots_read(RENAMED) == (1 if verb is expire else SNAPSHOTS + 1)


@dataclass(slots=True)
class DeletesLake:
    """A catalog that replaces a table with deletes by position before the request of this number,
    or after a commit, whose answer may then be lost."""

    catalog: ServedCatalog
    table: DeleteTable = field(init=False)
    other: DeleteTable = field(init=False)
    replaces_before: int | None = None
    replaces_after_commit: bool = False
    loses_answer: bool = False
    requests: int = 0

    def __post_init__(self) -> None:
        self.table = DeleteTable(self.catalog.create(NAME))
        for name in "ab":
            self.table.append(name, [ord(name) * 100 + at for at in range(9)])
        for at in range(4):
            self.table.delete({"a": [at], "b": [8 - at]})
        self.table.delete({"a": [7]}, names_file=True)
        self.catalog.reply = self.answered

    def answered(self, request: Received) -> Answer:
        self.requests += request.kind in ("table", "commit")
        if self.requests == self.replaces_before:
            self.replace()
        answer = self.catalog.honest(request)
        if request.kind == "commit" and self.replaces_after_commit:
            self.replace()
            return Answer(lost=True) if self.loses_answer else answer
        return answer

    def replace(self) -> None:
        self.replaces_before, self.replaces_after_commit = None, False
        self.catalog.rename(NAME, RENAMED)
        model = self.table.model
        assert isinstance(model, ServedModel)
        model.name = RENAMED
        self.other = DeleteTable(self.catalog.create(NAME, model.location.uri))
        self.other.append("c", range(3))

    def open(self) -> CatalogTable:
        opened = open_catalog("lake", {"uri": self.catalog.url}, credentials={"token": TOKEN})
        return CatalogTable(opened, NAME, clock=FakeClock())

    def assert_whole(self, snapshots: int) -> None:
        assert self.table.rows() == [97_04, 97_05, 97_06, 97_08, *range(98_00, 98_05)]
        assert self.other.rows() == [0, 1, 2]
        hint = {"metadata/version-hint.text"}
        for table in (self.table, self.other):
            assert referenced(table.model) - hint <= stored(table.model)
        assert len(self.table.model.metadata().snapshots) == snapshots


DELETES_SNAPSHOTS = 7


def position_deletes(operations: CatalogTable) -> CommitOutcome | None:
    options = delete_rewrite_options({"rewrite-all": "true"}, {})
    (outcome,) = execute_position_deletes(operations, options, clock=FakeClock()).outcomes
    return outcome


def test_a_rename_before_any_request_of_a_rewrite_of_deletes_is_a_conflict() -> None:
    with ServedCatalog() as catalog:
        rehearsal = DeletesLake(catalog)
        assert outcome_of(partial(position_deletes, rehearsal.open())) == "done"
    assert rehearsal.requests >= 3
    for number in range(2, rehearsal.requests + 1):
        with ServedCatalog() as catalog:
            lake = DeletesLake(catalog, replaces_before=number)
            operations = lake.open()
            assert outcome_of(partial(position_deletes, operations)) == "Conflict", number
            lake.assert_whole(DELETES_SNAPSHOTS)


@pytest.mark.parametrize("loses_answer", [True, False])
def test_a_rename_after_a_rewrite_of_deletes_leaves_what_it_needs(loses_answer: bool) -> None:
    with ServedCatalog() as catalog:
        lake = DeletesLake(catalog, replaces_after_commit=True, loses_answer=loses_answer)
        ends = "Conflict" if loses_answer else "done"
        assert outcome_of(partial(position_deletes, lake.open())) == ends
        lake.assert_whole(DELETES_SNAPSHOTS + 1)


@pytest.mark.spark
def test_an_erasure_leaves_what_a_renamed_table_needs(spark: SparkSession, tmp_path: Path) -> None:
    def erase(lake: Lake) -> str:
        table = IcebergTable(lake.open())

        def erased() -> None:
            erase_iceberg_rows(table, "id = 5", spark=spark)

        return outcome_of(erased)

    def made(name: object) -> Lake:
        folder = tmp_path / str(name)
        folder.mkdir()
        return Lake(folder)

    rehearsal = made("rehearsal")
    assert erase(rehearsal) == "done"
    for number in range(2, rehearsal.catalog.calls + 1):
        lake = made(number)
        lake.catalog.replaces_before = number
        assert erase(lake) == "Conflict", number
        assert set(ROWS) - {5} <= set(lake.rows(RENAMED))
        assert (lake.rows(NAME), lake.snapshots_read(NAME)) == ([100], 1)
        assert lake.snapshots_read(RENAMED) >= 1
    lake = made("lost reply")
    lake.catalog.replaces_after_commit = True
    lake.catalog.reply = CommitStateUnknownException("gateway timeout")
    assert erase(lake) == "Conflict"
    assert lake.snapshots_read(RENAMED) == SNAPSHOTS + 1


def test_a_table_that_was_renamed_is_not_dropped_by_its_old_name(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    operations = lake.open()
    operations.load()
    replace_table(lake.catalog)
    with pytest.raises(ConflictError, match="another table is at this place now"):
        operations.drop()
    assert_whole(lake)


@pytest.mark.parametrize("name", [NAME, RENAMED])
def test_orphans_of_a_shared_folder_are_refused(name: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    replace_table(lake.catalog)
    options = OrphanOptions(older_than_ms=2**62, is_forced=True)
    with pytest.raises(UnsupportedTableError, match="another Iceberg table"):
        plan_orphans(CatalogTable(plain(lake.catalog), name), options)
    assert_whole(lake)


def test_files_of_a_dropped_table_go_when_it_is_named(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    dropped = lake.open().load().metadata
    replace_table(lake.catalog)
    lake.catalog.drop_table(RENAMED)
    options = OrphanOptions(
        older_than_ms=2**62, is_forced=True, dropped_tables=(dropped.table_uuid.upper(),)
    )
    execute_orphans(lake.open(), plan_orphans(lake.open(), options))
    first = dropped.snapshots[0].manifest_list
    assert first is not None
    assert not Path(first.removeprefix("file://")).exists()
    assert (lake.rows(NAME), lake.snapshots_read(NAME)) == ([100], 1)
    assert plan_orphans(lake.open(), OrphanOptions(2**62, is_forced=True)).orphans == ()


def test_a_table_is_not_taken_for_one_that_was_there_before(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    table = IcebergTable(lake.open())
    replace_table(lake.catalog)
    with pytest.raises(ConflictError, match="another table is at this place now"):
        table.refresh()


def test_a_folder_that_was_emptied_and_filled_anew_is_not_committed_to() -> None:
    model = IcebergModel.create()
    for number in range(4):
        model.append([number])
    operations = model.operations()
    base = operations.load()
    empty_and_create_anew(model)
    for number in range(4):
        model.append([number])
    before = stored(model)
    assert model.operations().load().version == base.version
    outcome = operations.commit(base, (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Replaced)
    with pytest.raises(ConflictError, match="another table is at this place now"):
        operations.load()
    assert stored(model) == before
