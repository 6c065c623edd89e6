"""Expiring snapshots for real: what goes, what stays, and what failures and rivals do to it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tideline.errors import ConfigError, FailedAfterCommitError, StorageUnavailableError
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.metadata.snapshot import SnapshotRef
from tideline.iceberg.services.expire_snapshots.execute import (
    ExpireRun,
    execute_expire,
    preview_expire,
)
from tideline.iceberg.services.expire_snapshots.expired_files import ExpiredFiles
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.reachable_file import FileKind
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.table_operations import Committed, Unknown
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import SETTING as EXTRA_LOCATIONS
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.iceberg_audit import (
    referenced,
    roll_back,
    rows_by_snapshot,
    set_ref,
    stored,
)
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.interrupted_store import InterruptedStore
from tideline.testing.minio_server import MinioServer
from tideline.testing.minio_users import MinioUsers, Right
from tideline.testing.stepping_store import Step, SteppingStore

EVERYTHING = ExpireOptions(older_than_ms=2**62)


def worn(version: int = 2) -> IcebergModel:
    """A table with a past: appends, deletes, an overwrite, a rewrite, and a tag in the middle."""
    model = IcebergModel.create(format_version=version)
    model.append(range(10))
    model.append(range(10, 14), spec_id=1)
    if version > 1:
        model.delete_by_position([3])
        model.delete_by_value([4])
    tagged = model.metadata().current_snapshot_id
    assert tagged is not None
    set_ref(model, "release", SnapshotRef(tagged, "tag"))
    model.overwrite([6])
    assert isinstance(commit_rewrite(model.operations(), model.plan_rewrite()), Committed)
    model.append([20, 21])
    return model


def expire(
    model: IcebergModel, options: ExpireOptions = EVERYTHING, store: ObjectStore | None = None
) -> ExpireRun:
    return execute_expire(model.operations(store), options, clock=FakeClock())


def assert_sound(model: IcebergModel, rows: dict[int, list[int]]) -> None:
    """Every snapshot that is left has all its files and the rows it had."""
    assert referenced(model) <= stored(model)
    left = rows_by_snapshot(model)
    assert left == {snapshot_id: rows[snapshot_id] for snapshot_id in left}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_everything_goes_that_nothing_leads_to_and_nothing_else(version: int) -> None:
    model = worn(version)
    rows = rows_by_snapshot(model)
    run = expire(model)
    assert isinstance(run.outcome, Committed)
    assert run.left == ()
    metadata = model.metadata()
    assert {snapshot.snapshot_id for snapshot in metadata.snapshots} == set(run.plan.kept_ids)
    assert len(metadata.snapshots) == 2
    assert stored(model) == referenced(model)
    assert_sound(model, rows)
    assert run.deleted.counts[FileKind.MANIFEST_LIST] == len(rows) - 2
    assert run.deleted.counts[FileKind.DATA] > 0
    assert run.deleted.size_bytes > 0
    assert expire(model).outcome is None


def test_a_preview_names_the_files_that_go_and_changes_nothing() -> None:
    model = worn()
    before = stored(model)
    preview = preview_expire(model.operations(), EVERYTHING, clock=FakeClock())
    assert stored(model) == before
    run = expire(model)
    assert run.plan == preview.plan
    root = f"{model.location.uri}/"
    gone = before - stored(model)
    assert {file.location.removeprefix(root) for file in preview.files} == gone
    assert run.deleted.counts.total() == len(preview.files) == len(gone)


def test_metadata_alone_can_be_expired() -> None:
    model = worn()
    before = stored(model)
    run = expire(model, ExpireOptions(older_than_ms=2**62, clean_expired_files=False))
    assert isinstance(run.outcome, Committed)
    assert before <= stored(model)
    assert len(model.metadata().snapshots) == 2


def test_a_snapshot_off_the_main_line_goes_with_its_own_files_only() -> None:
    model = IcebergModel.create()
    model.append([1, 2])
    first = model.metadata().current_snapshot_id
    assert first is not None
    model.append([3, 4])
    abandoned = model.metadata().current_snapshot_id
    assert abandoned is not None
    roll_back(model, first)
    model.append([5, 6])
    rows = rows_by_snapshot(model)
    run = expire(model, ExpireOptions(older_than_ms=0, snapshot_ids=(abandoned,)))
    assert run.plan.snapshot_ids == (abandoned,)
    assert run.deleted.counts[FileKind.DATA] == 2
    assert_sound(model, rows)
    assert model.rows() == [1, 2, 5, 6]
    assert stored(model) == referenced(model)


class Denied:
    """Refuses calls of a store by their methods, but for the first ones."""

    def __init__(self, *methods: str, but: int = 0) -> None:
        self.methods, self.left = methods, but

    def __call__(self, step: Step) -> None:
        if step.method in self.methods:
            self.left -= 1
            if self.left < 0:
                raise StorageUnavailableError("access denied", path=step.path)


class CatalogLike(FileSystemTable):
    """Commits whatever the rights in the files' stores are, as a catalog does."""

    def __init__(self, model: IcebergModel, place: StoreLocation, store: ObjectStore) -> None:
        super().__init__(model.location)
        self.files = FileIO(model.location, model.metadata().location, {place: store})

    @property
    def io(self) -> FileIO:
        return self.files


def expire_denied(
    model: IcebergModel, place: str, denied: Denied, options: ExpireOptions = EVERYTHING
) -> ExpireRun:
    location = StoreLocation(place)
    operations = CatalogLike(model, location, SteppingStore(location.open(), denied))
    return execute_expire(operations, options, clock=FakeClock())


@pytest.mark.parametrize("method", ["delete", "get"])
def test_without_access_to_the_files_nothing_is_committed(method: str) -> None:
    model = worn()
    before, place = stored(model), model.location.uri
    with pytest.raises(StorageUnavailableError, match="access denied"):
        expire_denied(model, place, Denied(method))
    assert stored(model) == before
    metadata_alone = replace(EVERYTHING, clean_expired_files=False)
    run = expire_denied(model, place, Denied(method), metadata_alone)
    assert isinstance(run.outcome, Committed)


def test_without_access_to_the_folder_of_data_nothing_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = f"memory://{uuid.uuid4().hex}"
    monkeypatch.setenv(EXTRA_LOCATIONS, bucket)
    model = IcebergModel.create(properties={"write.data.path": f"{bucket}/data"})
    model.append([1, 2])
    model.append([3, 4])
    before = stored(model)
    with pytest.raises(StorageUnavailableError, match="access denied"):
        expire_denied(model, bucket, Denied("delete"))
    assert stored(model) == before


@pytest.mark.minio
def test_a_user_of_a_store_who_may_only_read_expires_nothing(
    s3_location: StoreLocation,
    minio_server: MinioServer,
    minio_bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = IcebergModel(s3_location)
    for info in (made := worn()).location.open().list():
        s3_location.open().put(info.path, made.location.open().get(info.path))
    before = stored(model)
    users = MinioUsers(minio_server.address, minio_server.access_key, minio_server.secret_key)
    for bucket in (minio_bucket, "another"):
        with monkeypatch.context() as patched:
            for name, value in users.add({bucket: Right.READ}).environment().items():
                patched.setenv(name, value)
            denied = s3_location.open()
            with pytest.raises(StorageUnavailableError):
                denied.put("probe", b"")
        with pytest.raises(StorageUnavailableError):
            operations = CatalogLike(model, s3_location, denied)
            execute_expire(operations, EVERYTHING, clock=FakeClock())
    assert stored(model) == before
    assert isinstance(expire(model).outcome, Committed)
    assert stored(model) == referenced(model)


def test_a_local_folder_that_cannot_be_written_to_is_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = IcebergModel.create_in(str(tmp_path), 2)
    before = stored(model)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StorageUnavailableError, match="cannot be written to"):
        expire(model)
    assert stored(model) == before


def test_a_deletion_that_failed_is_an_error_that_says_what_deletes_the_rest() -> None:
    model = worn()
    run = expire_denied(model, model.location.uri, Denied("delete", but=4))
    assert isinstance(run.outcome, Committed)
    assert isinstance(run.failure, FailedAfterCommitError)
    assert "the snapshots are expired, and the deletion of their files failed" in str(run.failure)
    assert f"`tideline iceberg remove-orphans {model.location.uri}`" in str(run.failure)
    assert referenced(model) < stored(model)
    options = OrphanOptions(older_than_ms=2**62, is_forced=True)
    execute_orphans(model.operations(), plan_orphans(model.operations(), options))
    assert referenced(model) == stored(model)


def test_a_table_that_shares_its_files_is_refused() -> None:
    model = IcebergModel.create(properties={"gc.enabled": "false"})
    model.append([1])
    model.append([2])
    for act in (execute_expire, preview_expire):
        with pytest.raises(ConfigError, match=r"gc\.enabled is false"):
            act(model.operations(), EVERYTHING, clock=FakeClock())
    assert len(model.metadata().snapshots) == 2


def test_a_copied_table_leaves_the_files_of_the_original() -> None:
    original = worn()
    moved = original.copy()
    files = stored(original)
    run = expire(moved)
    assert isinstance(run.outcome, Committed)
    assert stored(original) == files
    assert stored(moved) == referenced(moved)


def test_what_a_copy_names_outside_of_its_folder_is_not_its_own() -> None:
    moved = worn().copy()
    operations = moved.operations()
    metadata = operations.load().metadata
    item = {"snapshot-id": metadata.snapshots[0].snapshot_id, "file-size-in-bytes": 1}
    paths = ("memory://elsewhere/a.stats", f"{metadata.location}/metadata/b.stats")
    listed = [{**item, "statistics-path": path} for path in paths]
    before = replace(metadata, document={**metadata.document, "statistics": listed})
    search = ExpiredFiles(operations.io)
    assert [file.location for file in search.find((), before, metadata)] == [paths[1]]
    assert search.foreign_count == 1


def test_many_candidates_are_searched_share_by_share() -> None:
    model = worn()
    operations = model.operations()
    before = operations.load().metadata
    run = expire(model.copy())
    kept = [snapshot for snapshot in before.snapshots if snapshot.snapshot_id in run.plan.kept_ids]
    gone = [
        snapshot for snapshot in before.snapshots if snapshot.snapshot_id not in run.plan.kept_ids
    ]
    after = before.of({**before.json(), "snapshots": [snapshot.json(2) for snapshot in kept]})
    at_once = list(ExpiredFiles(operations.io).find(gone, before, after))
    in_shares = list(ExpiredFiles(operations.io, candidates_max=2).find(gone, before, after))
    assert sorted(map(str, in_shares)) == sorted(map(str, at_once))
    assert len({file.location for file in at_once}) == len(at_once) == run.deleted.counts.total()


def test_an_expired_list_that_is_gone_leaves_its_files_and_says_so() -> None:
    model = worn()
    rows = rows_by_snapshot(model)
    first = model.metadata().snapshots[0]
    assert first.manifest_list is not None
    model.location.open().delete(first.manifest_list.removeprefix(f"{model.location.uri}/"))
    run = expire(model)
    assert isinstance(run.outcome, Committed)
    assert any(first.manifest_list in reason for reason in run.left)
    assert_sound(model, rows)


@pytest.mark.slow_with("2")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_dying_before_or_after_any_write_leaves_orphans_only(version: int) -> None:
    model = worn(version)
    rows = rows_by_snapshot(model)
    rehearsal = model.copy()
    counted = FaultyStore(rehearsal.location.open())
    expire(rehearsal, store=counted)
    states = set()
    for number in range(1, len(counted.writes) + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            table = model.copy()
            with pytest.raises(SimulatedCrash):
                expire(table, store=FaultyStore(table.location.open(), plan))
            assert_sound(table, rows)
            states.add(len(table.metadata().snapshots))
            table.append([99])
            assert table.rows() == [*model.rows(), 99]
    assert states == {2, len(rows)}


def test_any_call_may_fail_once() -> None:
    model = worn()
    rows = rows_by_snapshot(model)
    rehearsal = model.copy()
    counted = FaultyStore(rehearsal.location.open())
    expire(rehearsal, store=counted)
    ends = set()
    for number in range(1, counted.calls + 1):
        table = model.copy()
        plan = FaultPlan(unavailable_calls=frozenset([number]))
        try:
            run = expire(table, store=FaultyStore(table.location.open(), plan))
        except StorageUnavailableError:
            ends.add("raised")
            assert len(table.metadata().snapshots) == len(rows)
            assert stored(table) == stored(model)
        else:
            ends.add("left some" if run.failure else "done")
            assert isinstance(run.outcome, Committed)
            assert bool(run.failure) == (stored(table) != referenced(table))
        assert_sound(table, rows)
    assert ends == {"raised", "left some", "done"}


def test_after_an_unknown_outcome_no_file_goes() -> None:
    model = worn()
    rows = rows_by_snapshot(model)
    before = stored(model)
    seen = set()
    for number in range(1, 40, 2):
        table = model.copy()
        outage = frozenset(range(number, number + 1000))
        plan = FaultPlan(lost_reply_of_conditional_write=1, unavailable_calls=outage)
        try:
            run = expire(table, store=FaultyStore(table.location.open(), plan))
        except StorageUnavailableError:
            continue
        seen.add(type(run.outcome))
        if isinstance(run.outcome, Unknown):
            assert before <= stored(table)
        assert_sound(table, rows)
    assert Unknown in seen


def tag_the_oldest(table: IcebergModel) -> None:
    set_ref(table, "late", SnapshotRef(table.metadata().snapshots[0].snapshot_id, "tag"))


def roll_back_to_the_oldest(table: IcebergModel) -> None:
    roll_back(table, table.metadata().snapshots[0].snapshot_id)


RIVALS: dict[str, Callable[[IcebergModel], object]] = {
    "append": lambda table: table.append([50]),
    "overwrite": lambda table: table.overwrite([2]),
    "tag": tag_the_oldest,
    "roll back": roll_back_to_the_oldest,
    "expire": lambda table: expire(table),
}


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_before_any_call_keeps_its_rows(name: str) -> None:
    model = worn()
    rehearsal = InterruptedStore(model.copy().location.open(), 0, lambda: None)
    expire(model.copy(), store=rehearsal)
    oldest = model.metadata().snapshots[0].snapshot_id
    known = rows_by_snapshot(model)
    is_kept = set()
    for number in rehearsal.moments(every=12):
        table = model.copy()
        work = partial(RIVALS[name], table)
        run = expire(table, store=InterruptedStore(table.location.open(), number, work))
        assert run.outcome is None or isinstance(run.outcome, Committed), number
        assert referenced(table) <= stored(table), number
        rows = rows_by_snapshot(table)
        assert all(rows[key] == known[key] for key in rows.keys() & known.keys()), number
        is_kept.add(oldest in rows)
    assert is_kept == ({True, False} if name in ("tag", "roll back") else {False})
