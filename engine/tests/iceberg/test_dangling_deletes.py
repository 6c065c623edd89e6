"""Delete files without a purpose are found, and no others."""

from __future__ import annotations

from tideline.iceberg.commit.rewrite_files import RewriteFiles, commit_rewrite
from tideline.iceberg.services.rewrite_data_files.dangling_deletes import find_dangling_deletes
from tideline.iceberg.table.table_operations import Committed
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_model import IcebergModel


def removed(model: IcebergModel) -> int:
    """Removes them, and says how many they were."""
    metadata = model.metadata()
    head = metadata.snapshot()
    assert head is not None
    dangling = find_dangling_deletes(model.operations().io, metadata, head)
    if dangling:
        rewrite = RewriteFiles(head.snapshot_id, removed_deletes=dangling)
        outcome = commit_rewrite(model.operations(), rewrite, clock=FakeClock())
        assert isinstance(outcome, Committed)
    return len(dangling)


def rewrite(model: IcebergModel, partition: str) -> None:
    """One partition, at the newest sequence number."""
    files = [e.data_file for e in model.files().data() if e.data_file.partition == (partition,)]
    planned = model.plan_rewrite(file.file_path for file in files)
    assert isinstance(commit_rewrite(model.operations(), planned, clock=FakeClock()), Committed)


def test_deletes_that_still_delete_stay() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    model.delete_by_value([1, 2])
    model.delete_by_value([3], spec_id=1)
    model.delete_by_position([4], names_file=False)
    model.delete_by_position([5])
    assert removed(model) == 0
    assert model.rows() == [0, 6, 7, 8, 9]


def test_deletes_of_a_partition_go_when_its_data_is_as_young() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    model.delete_by_value([1, 2])
    model.delete_by_position([4], names_file=False)
    rewrite(model, "even")
    # The new file is as young as the position delete, which might still be about it.
    assert removed(model) == 1
    assert model.rows() == [0, 3, 5, 6, 7, 8, 9]
    model.append([11, 12])
    rewrite(model, "even")
    assert removed(model) == 1
    (left,) = model.files().deletes()
    assert left.data_file.partition == ("odd",)
    assert model.rows() == [0, 3, 5, 6, 7, 8, 9, 11, 12]


def test_deletes_for_all_partitions_stay_while_any_data_is_older() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    model.delete_by_value([1, 2], spec_id=1)
    rewrite(model, "even")
    assert removed(model) == 0
    rewrite(model, "odd")
    assert removed(model) == 1
    assert model.rows() == [0, *range(3, 10)]


def test_a_delete_of_a_file_that_is_gone_goes() -> None:
    model = IcebergModel.create()
    model.append(range(10))
    model.delete_by_position([4])
    rewrite(model, "even")
    assert len(model.files().deletes()) == 1
    assert removed(model) == 1
    assert model.rows() == [0, 1, 2, 3, *range(5, 10)]


def test_deletes_without_any_data_go() -> None:
    model = IcebergModel.create()
    model.delete_by_value([4])
    model.append([1, 3])
    assert removed(model) == 1
    assert model.rows() == [1, 3]
