"""Files are replaced, rows stay: what the new snapshot looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline.errors import ConfigError, InvalidDataError
from tideline.iceberg.commit.rewrite_files import RewriteFiles, commit_rewrite
from tideline.iceberg.manifest.manifest_entry import EntryStatus, FileContent, ManifestContent
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.metadata_update import SetSnapshotRef
from tideline.iceberg.metadata.snapshot import SnapshotRef
from tideline.iceberg.table.table_operations import Committed, Conflicted
from tideline.testing.iceberg_model import IcebergModel

VERSIONS = (1, 2, 3)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def model(request: pytest.FixtureRequest) -> IcebergModel:
    """Three commits of even and odd rows."""
    table = IcebergModel.create(format_version=request.param)
    for start in (0, 10, 20):
        assert isinstance(table.append(range(start, start + 10)), Committed)
    return table


def commit(model: IcebergModel, rewrite: RewriteFiles) -> object:
    return commit_rewrite(model.operations(), rewrite, clock=model.clock)


def even_paths(model: IcebergModel) -> list[str]:
    return [
        entry.data_file.file_path
        for entry in model.files().data()
        if entry.data_file.partition == ("even",)
    ]


def test_rows_are_the_same_in_fewer_files(model: IcebergModel) -> None:
    before = model.metadata()
    outcome = commit(model, model.plan_rewrite())
    assert isinstance(outcome, Committed)
    assert model.rows() == list(range(30))
    assert len(model.files().data()) == 2
    after = model.metadata()
    head, parent = after.snapshot(), before.snapshot()
    assert head is not None
    assert parent is not None
    assert head.operation == "replace"
    assert head.parent_snapshot_id == parent.snapshot_id
    assert outcome.loaded.metadata.current_snapshot_id == head.snapshot_id
    assert after.last_sequence_number == (0 if after.format_version == 1 else 4)
    assert [entry.snapshot_id for entry in after.snapshot_log][-1] == head.snapshot_id
    assert model.unreferenced() == set()


def test_summary_is_what_iceberg_writes(model: IcebergModel) -> None:
    removed = model.files().data()
    rewrite = model.plan_rewrite(even_paths(model))
    commit(model, replace(rewrite, summary_extra={"engine-name": "tideline"}))
    head = model.metadata().snapshot()
    assert head is not None
    evens = [
        manifest_entry.data_file
        for manifest_entry in removed
        if manifest_entry.data_file.partition == ("even",)
    ]
    odd_bytes = sum(
        manifest_entry.data_file.file_size_bytes
        for manifest_entry in removed
        if manifest_entry.data_file.partition == ("odd",)
    )
    new_bytes = rewrite.added_data[0].file_size_bytes
    assert dict(head.summary) == {
        "engine-name": "tideline",
        "added-data-files": "1",
        "deleted-data-files": "3",
        "added-records": "15",
        "deleted-records": "15",
        "added-files-size": str(new_bytes),
        "removed-files-size": str(sum(file.file_size_bytes for file in evens)),
        "changed-partition-count": "1",
        "manifests-created": "4",
        "manifests-kept": "0",
        "manifests-replaced": "3",
        "total-records": "30",
        "total-files-size": str(odd_bytes + new_bytes),
        "total-data-files": "4",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_only_manifests_that_hold_the_files_are_rewritten(model: IcebergModel) -> None:
    operations = model.operations()
    before = manifests_of(operations.io, model.metadata().snapshot())
    newest = {entry.data_file.file_path for entry in entries_of(operations.io, before[0])}
    commit(model, model.plan_rewrite(newest))
    after = manifests_of(operations.io, model.metadata().snapshot())
    assert {manifest_file.path for manifest_file in before[1:]} == {
        manifest_file.path for manifest_file in after
    } & {manifest_file.path for manifest_file in before}
    assert len(after) == 4


def test_removed_files_stay_listed_as_deleted_with_their_numbers(model: IcebergModel) -> None:
    operations = model.operations()
    removed = {
        manifest_entry.data_file.file_path: manifest_entry
        for manifest_entry in model.files().data()
    }
    commit(model, model.plan_rewrite(even_paths(model)))
    head = model.metadata().snapshot()
    assert head is not None
    deleted = [
        entry
        for manifest in manifests_of(operations.io, head)
        for entry in entries_of(operations.io, manifest)
        if entry.status is EntryStatus.DELETED
    ]
    assert len(deleted) == 3
    for entry in deleted:
        old = removed[entry.data_file.file_path]
        assert entry.snapshot_id == head.snapshot_id
        assert entry.sequence_number == old.sequence_number
        assert entry.file_sequence_number == old.file_sequence_number
        assert entry.data_file == old.data_file
    commit(model, model.plan_rewrite())
    later = model.metadata().snapshot()
    assert later is not None
    deleted_by = {
        entry.snapshot_id
        for manifest in manifests_of(operations.io, later)
        for entry in entries_of(operations.io, manifest)
        if entry.status is EntryStatus.DELETED
    }
    assert deleted_by == {later.snapshot_id}


def test_new_files_take_over_the_sequence_number_they_were_read_at() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    rewrite = model.plan_rewrite()
    model.append(range(10, 20))
    commit(model, rewrite)
    numbers = {
        manifest_entry.data_file.file_path: (
            manifest_entry.sequence_number,
            manifest_entry.file_sequence_number,
        )
        for manifest_entry in model.files().data()
    }
    assert {numbers[file.file_path] for file in rewrite.added_data} == {(1, 3)}
    head = model.metadata().snapshot()
    assert head is not None
    manifests = manifests_of(model.operations().io, head)
    assert {
        (manifest.sequence_number, manifest.min_sequence_number)
        for manifest in manifests
        if manifest.added_files_count and manifest.added_snapshot_id == head.snapshot_id
    } == {(3, 1)}


def test_a_rewrite_of_a_branch_moves_that_branch_alone() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    operations = model.operations()
    loaded = operations.load()
    main = loaded.metadata.snapshot()
    assert main is not None
    audit = SnapshotRef(main.snapshot_id, min_snapshots_to_keep=3)
    assert isinstance(operations.commit(loaded, (), (SetSnapshotRef("audit", audit),)), Committed)
    rewrite = replace(model.plan_rewrite(), branch="audit")
    model.append(range(10, 20))
    commit(model, rewrite)
    metadata = model.metadata()
    assert metadata.refs["audit"].min_snapshots_to_keep == 3
    audited = metadata.ref_snapshot("audit")
    assert audited is not None
    assert (audited.operation, audited.parent_snapshot_id) == ("replace", main.snapshot_id)
    assert audited.sequence_number == 3
    assert model.rows("audit") == list(range(10))
    assert model.rows() == list(range(20))
    tag = SnapshotRef(main.snapshot_id, type="tag")
    operations.commit(operations.load(), (), (SetSnapshotRef("v1", tag),))
    with pytest.raises(ConfigError, match="tag"):
        commit(model, replace(rewrite, branch="v1"))


def test_small_manifests_are_merged_when_there_are_enough() -> None:
    properties = {"commit.manifest.min-count-to-merge": "4"}
    model = IcebergModel.create(properties=properties)
    for start in range(0, 50, 10):
        model.append(range(start, start + 10))
    operations = model.operations()
    oldest = manifests_of(operations.io, model.metadata().snapshot())[-1]
    paths = [entry.data_file.file_path for entry in entries_of(operations.io, oldest)]
    rewrite = model.plan_rewrite(paths)
    commit(model, rewrite)
    head = model.metadata().snapshot()
    assert head is not None
    (only,) = manifests_of(operations.io, head)
    assert (only.added_files_count, only.existing_files_count, only.deleted_files_count) == (
        2,
        8,
        2,
    )
    assert head.summary["manifests-created"] == "1"
    assert head.summary["manifests-kept"] == "0"
    assert head.summary["manifests-replaced"] == "5"
    assert model.rows() == list(range(50))
    assert sorted(
        manifest_entry.sequence_number or 0 for manifest_entry in model.files().data()
    ) == [*(2, 2, 3, 3, 4, 4, 5, 5, 5, 5)]
    assert model.unreferenced() == set()


def test_row_ids_are_kept_and_new_files_get_new_ones() -> None:
    model = IcebergModel.create(format_version=3)
    model.append(range(10))
    model.append(range(10, 20))
    before = {
        manifest_entry.data_file.file_path: manifest_entry.data_file.first_row_id
        for manifest_entry in model.files().data()
    }
    assert sorted(value for value in before.values() if value is not None) == [0, 5, 10, 15]
    rewrite = model.plan_rewrite(even_paths(model))
    forged = tuple(replace(file, first_row_id=7) for file in rewrite.added_data)
    commit(model, replace(rewrite, added_data=forged))
    after = {
        manifest_entry.data_file.file_path: manifest_entry.data_file.first_row_id
        for manifest_entry in model.files().data()
    }
    metadata = model.metadata()
    head = metadata.snapshot()
    assert head is not None
    kept = {path: row_id for path, row_id in after.items() if path in before}
    assert kept == {path: before[path] for path in kept}
    assert len(kept) == 2
    assert [after[file.file_path] for file in rewrite.added_data] == [20]
    # The filtered manifests have 5 existing rows each, counted although their ids stay.
    assert (head.first_row_id, head.added_rows, metadata.next_row_id) == (20, 20, 40)


def test_a_rewrite_that_could_change_rows_is_refused() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    rewrite = model.plan_rewrite()
    with pytest.raises(InvalidDataError, match="cannot add rows"):
        grown = replace(rewrite.added_data[0], record_count=99)
        replace(rewrite, added_data=(grown,))
    with pytest.raises(InvalidDataError, match="must replace files"):
        replace(rewrite, removed_data=(), added_data=())
    with pytest.raises(InvalidDataError, match="cannot replace itself"):
        replace(rewrite, added_data=rewrite.removed_data)


def test_a_removed_file_that_is_gone_is_a_conflict_and_leaves_nothing() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    rewrite = model.plan_rewrite()
    model.overwrite([3])
    outcome = commit(model, rewrite)
    assert isinstance(outcome, Conflicted)
    assert rewrite.removed_data[1].file_path in outcome.reason
    assert model.rows() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert model.unreferenced() == set()


def test_delete_files_older_than_all_data_go() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    model.delete_by_value([3, 4])
    model.append(range(10, 20))
    assert len(model.files().deletes()) == 2
    commit(model, model.plan_rewrite())
    # The rewritten rows are as old as the newest snapshot, so no delete is left with a purpose.
    assert model.files().deletes() == []
    head = model.metadata().snapshot()
    assert head is not None
    assert head.summary["removed-equality-delete-files"] == "2"
    assert head.summary["removed-equality-deletes"] == "2"
    assert head.summary["total-delete-files"] == "0"
    assert model.rows() == [0, 1, 2, *range(5, 20)]


def test_vectors_of_removed_files_go_with_them() -> None:
    model = IcebergModel.create(format_version=3)
    model.append(range(10))
    model.delete_by_position([2, 3])
    assert len(model.files().deletes()) == 2
    commit(model, model.plan_rewrite(even_paths(model)))
    (left,) = model.files().deletes()
    assert left.data_file.partition == ("odd",)
    head = model.metadata().snapshot()
    assert head is not None
    assert head.summary["removed-dvs"] == "1"
    assert "removed-position-delete-files" not in head.summary
    assert model.rows() == [0, 1, *range(4, 10)]


def test_contents_stay_in_manifests_of_their_own() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    model.delete_by_position([2])
    commit(model, model.plan_rewrite(even_paths(model)))
    io = model.operations().io
    for manifest in manifests_of(io, model.metadata().snapshot()):
        contents = {entry.data_file.content for entry in entries_of(io, manifest)}
        is_data = manifest.content is ManifestContent.DATA
        assert contents == {FileContent.DATA if is_data else FileContent.POSITION_DELETES}
