"""Services that meet broken plans, missing files and half done work: named, nothing touched.

Every message names table, instant and path; none of these commands starts Spark before it fails.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tideline.cli.main import run
from tideline.errors import ConflictError, CorruptTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.hudi.services.archival.config import ArchivalConfig, MergeConfig
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.service import TableService
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.archived import MERGE_PLAN_NAME
from tideline.hudi.timeline.instant import Action, Instant
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.archival_process import run_archival
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

Captured = pytest.CaptureFixture[str]

DUE = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.blocks.threshold": "1",
    "hoodie.clustering.inline.max.commits": "1",
}
OPTIONS = [word for item in DUE.items() for word in ("--option", "=".join(item))]
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: body[: len(body) // 2],
    "cut in its records": lambda body: body[:-20],
    "not a plan": lambda _: b"not a plan",
}
MOVE_ROWS = (COMPACTION, LOG_COMPACTION, CLUSTERING)


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    location = StoreLocation.of(tmp_path / "table")
    table = SmallTable.create(location, table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(8), 1))
    table.write("upsert", batch([0, 1], 2))
    table.write("upsert", batch([2, 3], 3))
    return table


def planned(table: SmallTable, service: TableService) -> tuple[Instant, str]:
    """A plan that waits to be run, and its path."""
    instant = local_services(table, DUE).schedule(service)
    assert isinstance(instant, Instant)
    return instant, open_fresh(table.location).timelines.path(instant)


def contents(table: SmallTable) -> dict[str, bytes]:
    """Every object of the table, locks aside."""
    store = table.store()
    paths = (info.path for info in store.list())
    return {path: store.get(path) for path in paths if "/.locks/" not in path}


def fails(table: SmallTable, capsys: Captured, *command: str, exit_code: int = 1) -> str:
    """The one line on stderr of a command that fails and changes nothing."""
    before = contents(table)
    assert run([*command]) == exit_code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert contents(table) == before
    return printed.err


def check(table: SmallTable, capsys: Captured) -> list[dict[str, str]]:
    run(["check", table.location.uri, "--json"])
    findings: list[dict[str, str]] = json.loads(capsys.readouterr().out)["findings"]
    return findings


@pytest.mark.parametrize("service", MOVE_ROWS, ids=str)
def test_a_plan_that_waits_to_be_run_is_no_finding(
    service: TableService, table: SmallTable, capsys: Captured
) -> None:
    planned(table, service)
    assert check(table, capsys) == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("service", MOVE_ROWS, ids=str)
def test_a_plan_that_cannot_be_read_is_named(
    service: TableService, damage: str, table: SmallTable, capsys: Captured
) -> None:
    instant, path = planned(table, service)
    store = table.store()
    store.put(path, DAMAGES[damage](store.get(path)))
    uri = table.location.uri
    message = fails(table, capsys, "execute", str(service), uri, *OPTIONS)
    assert f"table={uri}" in message
    assert f"instant={instant}" in message
    assert f"path={path}" in message
    (finding,) = check(table, capsys)
    assert (finding["path"], finding["instant"]) == (path, str(instant.time))


@pytest.mark.parametrize("service", (LOG_COMPACTION, CLUSTERING), ids=str)
def test_what_cannot_be_run_is_given_up_by_the_command_that_check_names(
    service: TableService, table: SmallTable, capsys: Captured
) -> None:
    before = table.values()
    instant, path = planned(table, service)
    table.store().put(path, b"not a plan")
    (finding,) = check(table, capsys)
    assert finding["advice"] == "tideline execute rollback"
    if service is CLUSTERING:
        with pytest.raises(CorruptTableError) as caught:
            table.write("upsert", batch([0], 9))
        assert (caught.value.table, caught.value.instant) == (table.location.uri, instant)
        assert table.values() == table.merged_values() == before
        assert run(["list-files", table.location.uri]) == run(["show", table.location.uri]) == 0
        capsys.readouterr()
    assert run(["execute", "rollback", table.location.uri]) == 0
    assert f"rollback {instant.time}" in capsys.readouterr().out
    assert table.values() == before
    assert table.lake().check(keys=True) == ()
    table.write("upsert", batch([0], 9))


def test_a_broken_compaction_plan_is_never_given_up(table: SmallTable, capsys: Captured) -> None:
    """Rows may have been appended on top of it."""
    instant, path = planned(table, COMPACTION)
    table.write("upsert", batch([0], 9))
    before = table.values()
    whole = table.store().get(path)
    table.store().put(path, whole[:100])
    assert run(["execute", "rollback", table.location.uri]) == 0
    assert "no writer died" in capsys.readouterr().out
    with pytest.raises(CorruptTableError) as caught:
        table.values()
    assert caught.value.path == path
    table.store().put(path, whole)
    assert table.values() == before
    local_services(table, DUE).run_pending(COMPACTION)
    assert table.values() == before
    assert open_fresh(table.location).timeline().find(instant.time) is not None


def test_a_restore_gets_rid_of_a_broken_compaction_plan(
    table: SmallTable, capsys: Captured
) -> None:
    """As check says, with a savepoint from before it was made."""
    before, uri = table.values(), table.location.uri
    assert run(["savepoint", "create", uri, "--json"]) == 0
    savepoint = json.loads(capsys.readouterr().out)["instant"]
    _, path = planned(table, COMPACTION)
    table.write("upsert", batch([0], 9))
    table.store().put(path, b"not a plan")
    assert run(["restore", uri, "--to", savepoint]) == 0
    assert table.values() == before
    assert table.lake().check(keys=True) == ()


@pytest.mark.parametrize("service", (COMPACTION, LOG_COMPACTION), ids=str)
def test_an_empty_plan_is_named(service: TableService, table: SmallTable, capsys: Captured) -> None:
    instant, path = planned(table, service)
    table.store().put(path, b"")
    message = fails(table, capsys, "execute", str(service), table.location.uri, *OPTIONS)
    assert "the plan is empty" in message
    assert f"instant={instant}" in message
    assert [item["path"] for item in check(table, capsys)] == [path]


@pytest.mark.parametrize("kind", ["base", "log"])
def test_a_compaction_whose_file_is_missing_names_it(
    kind: str, table: SmallTable, capsys: Captured
) -> None:
    instant, _ = planned(table, COMPACTION)
    opened = open_fresh(table.location)
    files = opened.files.base_files() if kind == "base" else opened.files.log_files()
    missing = files[0].path
    opened.store.delete(missing)
    for _ in range(2):
        message = fails(table, capsys, "execute", "compaction", table.location.uri, *OPTIONS)
        assert f"table={table.location.uri}" in message
        assert f"instant={instant.time}" in message
        assert f"path={missing}" in message
    errors = [item for item in check(table, capsys) if item["severity"] == "error"]
    assert {error["path"] for error in errors} == {missing}


@pytest.mark.parametrize("kind", ["base", "log"])
def test_a_clustering_whose_file_is_missing_keeps_rows_and_plan(
    kind: str, table: SmallTable, capsys: Captured
) -> None:
    instant, _ = planned(table, CLUSTERING)
    opened = open_fresh(table.location)
    files = opened.files.base_files() if kind == "base" else opened.files.log_files()
    missing = files[0].path
    opened.store.delete(missing)
    assert run(["execute", "clustering", table.location.uri, *OPTIONS]) == 1
    message = capsys.readouterr().err
    assert f"instant={instant.time}" in message
    assert f"path={missing}" in message
    assert opened.timeline().find(instant.time) == instant


def test_a_plan_whose_work_is_done_is_a_conflict_even_when_its_files_are_cleaned(
    table: SmallTable,
) -> None:
    instant, _ = planned(table, COMPACTION)
    services = local_services(table, {**DUE, "hoodie.clean.commits.retained": "1"})
    services.run_pending(COMPACTION)
    table.write("upsert", batch([0], 9))
    services.run(CLEANING)
    with pytest.raises(ConflictError, match="done already"):
        COMPACTION.execute_plan(
            services.context.table,
            instant,
            services.context.engine,
            config=services.context.config,
            write_config=services.context.write_config,
        )


def test_a_savepoint_on_a_cleaned_instant_is_refused(table: SmallTable, capsys: Captured) -> None:
    services = local_services(table, {**DUE, "hoodie.clean.commits.retained": "1"})
    services.run(COMPACTION)
    table.write("upsert", batch([0], 9))
    services.run(CLEANING)
    oldest = str(open_fresh(table.location).timeline().of(Action.DELTACOMMIT).instants[0].time)
    uri = table.location.uri
    message = fails(table, capsys, "savepoint", "create", uri, oldest, exit_code=2)
    assert "have been cleaned" in message
    assert f"table={uri}" in message
    assert f"instant={oldest}" in message


CONFIG = ArchivalConfig(commits_min=1, commits_max=2, merge=MergeConfig(True, 2))
ARCHIVES = ["--option", "hoodie.keep.min.commits=1", "--option", "hoodie.keep.max.commits=2",
            "--option", "hoodie.archive.merge.enable=true",
            "--option", "hoodie.archive.merge.files.batch.size=2"]  # fmt: skip


def half_merged(table: SmallTable) -> str:
    """Die in a merge of small archives, its plan written; the plan's path."""
    for version in range(4, 10):
        table.write("upsert", batch([0], version))
        if version in (6, 8):
            plain = ArchivalConfig(commits_min=1, commits_max=2)
            run_archival(table.location, plain, FaultPlan())
    folder = Path(table.location.uri.removeprefix("file://"))
    shutil.copytree(folder, folder.with_name("rehearsal"))
    rehearsed = SmallTable(StoreLocation.of(folder.with_name("rehearsal")))
    store = archive_through(rehearsed.store(), rehearsed)
    names = [write.path.rpartition("/")[2] for write in store.writes]
    plan = FaultPlan(crash_after_write=names.index(MERGE_PLAN_NAME) + 1)
    with pytest.raises(SimulatedCrash):
        archive_through(table.store(), table, plan)
    return next(info.path for info in table.store().list() if info.path.endswith(MERGE_PLAN_NAME))


def archive_through(
    inner: ObjectStore, table: SmallTable, plan: FaultPlan | None = None
) -> FaultyStore:
    store = FaultyStore(inner, plan, kernel_locks=True)
    options = dict(pair.split("=") for pair in ARCHIVES[1::2])
    local_services(table, options, store).run(ARCHIVAL)
    return store


def test_a_half_merged_archive_is_finished(table: SmallTable) -> None:
    path = half_merged(table)
    before = table.values()
    uri = table.location.uri
    assert run(["execute", "archival", uri, *ARCHIVES]) == 0
    assert table.store().head(path) is None
    assert table.values() == before
    assert table.lake().check(keys=True) == ()


def test_a_half_merged_archive_whose_plan_is_broken_loses_nothing(
    table: SmallTable, capsys: Captured
) -> None:
    path = half_merged(table)
    before, archived = table.values(), archived_instants(table)
    table.store().put(path, b"not a plan")
    code = run(["execute", "archival", table.location.uri, *ARCHIVES])
    printed = capsys.readouterr()
    assert code == 0 or path in printed.err
    assert archived_instants(table) >= archived
    assert table.values() == before


def archived_instants(table: SmallTable) -> set[Instant]:
    return {entry.instant for entry in open_fresh(table.location).commits.archive().completed()}


def test_a_compaction_plan_with_odd_values_is_refused(table: SmallTable, capsys: Captured) -> None:
    instant, path = planned(table, COMPACTION)
    record = decode_container(table.store().get(path))
    record["operations"][0]["baseInstantTime"] = "yesterday"
    table.store().put(path, encode_container("HoodieCompactionPlan", record))
    message = fails(table, capsys, "execute", "compaction", table.location.uri, *OPTIONS)
    assert f"instant={instant}" in message
    assert path in message


def test_a_clustering_plan_with_odd_parameters_is_refused(
    table: SmallTable, capsys: Captured
) -> None:
    instant, path = planned(table, CLUSTERING)
    record = decode_container(table.store().get(path))
    params = record["clusteringPlan"]["strategy"]["strategyParams"]
    params["hoodie.clustering.plan.strategy.target.file.max.bytes"] = "many"
    table.store().put(path, encode_container("HoodieRequestedReplaceMetadata", record))
    message = fails(table, capsys, "execute", "clustering", table.location.uri, *OPTIONS)
    assert f"instant={instant}" in message
    assert path in message
