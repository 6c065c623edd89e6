"""Which files of a listing are the table, as timelines, replacements and plans show it."""

from __future__ import annotations

import random
from functools import partial

import pytest

from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView, Listing
from tideline.hudi.table.layout.version_6 import slices_by_name
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

build_view = partial(FileSystemView.build, slices=slices_by_name)

A, B = "aaaaaaaa-0", "bbbbbbbb-0"


def at(number: int) -> InstantTime:
    return InstantTime(f"202501010000{number:05d}")


def base(file_id: str, number: int, token: str = "0-1-2") -> str:
    return f"{file_id}_{token}_{at(number)}.parquet"


def log(file_id: str, number: int, version: int, token: str = "0-1-2") -> str:
    return f".{file_id}_{at(number)}.log.{version}_{token}"


def timeline(
    *completed: int, pending: tuple[int, ...] = (), compacting: tuple[int, ...] = ()
) -> ActiveTimeline:
    return ActiveTimeline(
        tuple(Instant(at(number), Action.COMMIT, State.COMPLETED) for number in completed)
        + tuple(Instant(at(number), Action.COMMIT, State.INFLIGHT) for number in pending)
        + tuple(Instant(at(number), Action.COMPACTION, State.REQUESTED) for number in compacting)
    )


def listing(*names: str, partition: str = "p") -> Listing:
    return {partition: [(name, 100 + index) for index, name in enumerate(names)]}


def latest(view: FileSystemView, as_of: int | None = None) -> list[str]:
    files = view.latest_base_files("p", None if as_of is None else at(as_of))
    return [base_file.name for base_file in files]


def test_the_newest_committed_base_file_of_each_group_is_the_latest() -> None:
    names = [base(A, 10), base(B, 10), base(A, 20), base(A, 30)]
    view = build_view(listing(*names), timeline(10, 20, pending=(30,)))
    assert latest(view) == [base(A, 20), base(B, 10)]
    assert view.latest_base_files("p")[0].size_bytes == 102


def test_the_order_of_a_listing_does_not_matter() -> None:
    names = [base(A, 10), base(B, 10), base(A, 20), log(A, 20, 1), log(A, 20, 2), log(A, 20, 10)]
    view = build_view({"p": [(name, 1) for name in names]}, timeline(10, 20))
    for seed in range(10):
        random.Random(seed).shuffle(names)
        assert build_view({"p": [(name, 1) for name in names]}, timeline(10, 20)) == view


def test_as_of_shows_an_earlier_state() -> None:
    view = build_view(listing(base(A, 10), base(A, 20), base(B, 20)), timeline(10, 20))
    assert latest(view, 9) == []
    assert latest(view, 10) == [base(A, 10)]
    assert latest(view, 15) == [base(A, 10)]
    assert latest(view, 20) == [base(A, 20), base(B, 20)]


def test_files_of_archived_instants_are_committed() -> None:
    view = build_view(listing(base(A, 10), base(B, 20)), timeline(20, 30))
    assert latest(view) == [base(A, 10), base(B, 20)]


def test_files_of_instants_that_vanished_from_the_active_timeline_are_phantoms() -> None:
    names = listing(base(A, 10), base(A, 15), base(B, 15))
    view = build_view(names, timeline(10, 20))
    assert latest(view) == [base(A, 10)]


def test_files_of_a_pending_first_commit_are_hidden() -> None:
    view = build_view(listing(base(A, 10)), timeline(pending=(10,)))
    assert latest(view) == []
    assert view.partitions == ("p",)
    assert view.file_groups("p") == ()


def test_without_any_instant_nothing_is_committed() -> None:
    assert latest(build_view(listing(base(A, 10)), ActiveTimeline())) == []


def test_filtering_the_timeline_does_not_make_instants_look_archived() -> None:
    whole = timeline(10, 20, 30)
    view = build_view(listing(base(A, 10), base(B, 20)), whole.after(at(20)))
    assert latest(view) == []


def test_replaced_groups_are_gone_from_their_replacement_on() -> None:
    view = build_view(
        listing(base(A, 10), base(B, 30)),
        timeline(10, 20, 30),
        replaced={FileGroupId("p", A): at(30)},
    )
    assert latest(view) == [base(B, 30)]
    assert latest(view, 30) == [base(B, 30)]
    assert latest(view, 29) == [base(A, 10)]
    assert [group.id.file_id for group in view.all_file_groups("p")] == [A, B]


def test_a_replaced_group_of_another_partition_with_the_same_file_id_stays() -> None:
    view = build_view(
        {"p": [(base(A, 10), 1)], "q": [(base(A, 10), 1)]},
        timeline(10, 20),
        replaced={FileGroupId("q", A): at(20)},
    )
    assert latest(view) == [base(A, 10)]
    assert view.latest_base_files("q") == ()


def test_what_is_no_data_file_is_ignored() -> None:
    junk = [
        ".hoodie_partition_metadata",
        f".{base(A, 10)}.crc",
        f".{log(A, 10, 1)}.crc",
        "_SUCCESS",
        "notes.txt",
        "part-0001.parquet",
    ]
    view = build_view(listing(base(A, 10), *junk), timeline(10))
    assert [group.id.file_id for group in view.file_groups("p")] == [A]
    assert view.latest_slices("p")[0].log_files == ()


def test_log_files_belong_to_the_slice_their_name_carries_in_version_order() -> None:
    names = [base(A, 10), log(A, 10, 1), base(A, 20), log(A, 20, 10), log(A, 20, 2, "0-9-9")]
    names.append(log(A, 20, 2, "0-10-0"))
    view = build_view(listing(*names), timeline(10, 20))
    (newest,) = view.latest_slices("p")
    assert newest.base_file is not None
    assert newest.base_file.name == base(A, 20)
    assert [item.name for item in newest.log_files] == [
        log(A, 20, 2, "0-9-9"),
        log(A, 20, 2, "0-10-0"),
        log(A, 20, 10),
    ]
    assert newest.size_bytes == 102 + 103 + 104 + 105
    (older,) = view.latest_slices("p", at(10))
    assert [item.name for item in older.log_files] == [log(A, 10, 1)]


def test_a_group_of_log_files_only_is_a_slice_without_base_file() -> None:
    view = build_view(listing(log(A, 10, 1)), timeline(10))
    (file_slice,) = view.latest_slices("p")
    assert file_slice.base_file is None
    assert file_slice.base_instant == at(10)
    assert view.latest_base_files("p") == ()


def test_logs_after_a_pending_compaction_go_on_top_of_the_slice_before_it() -> None:
    names = [base(A, 10), log(A, 10, 1), log(A, 20, 1), base(A, 20)]
    pending = {FileGroupId("p", A): at(20)}
    view = build_view(listing(*names), timeline(10, compacting=(20,)), pending_compaction=pending)
    (merged,) = view.latest_slices("p")
    assert merged.base_file is not None
    assert merged.base_file.name == base(A, 10)
    assert [item.name for item in merged.log_files] == [log(A, 10, 1), log(A, 20, 1)]
    assert latest(view) == [base(A, 10)]


def test_a_pending_compaction_without_later_logs_changes_nothing() -> None:
    names = [base(A, 10), log(A, 10, 1)]
    view = build_view(
        listing(*names),
        timeline(10, compacting=(20,)),
        pending_compaction={FileGroupId("p", A): at(20)},
    )
    (file_slice,) = view.latest_slices("p")
    assert file_slice.base_instant == at(10)
    assert [item.name for item in file_slice.log_files] == [log(A, 10, 1)]


def test_small_files_leave_out_large_and_planned_ones() -> None:
    ids = [f"{number:08d}-0" for number in range(4)]
    files = [(base(file_id, 10), 100 * index) for index, file_id in enumerate(ids)]
    view = build_view(
        {"p": files},
        timeline(10),
        pending_compaction={FileGroupId("p", ids[0]): at(20)},
        pending_clustering={FileGroupId("p", ids[1]): at(20)},
    )
    assert [item.file_id for item in view.small_files("p", 300)] == [ids[2]]
    assert [item.file_id for item in view.small_files("p", 301)] == [ids[2], ids[3]]


@pytest.mark.parametrize("partition", ["", "day=1", "größe=日/a%2Fb"])
def test_partitions_are_those_of_the_listing(partition: str) -> None:
    view = build_view({**listing(base(A, 10), partition=partition), "empty": []}, timeline(10))
    assert view.partitions == tuple(sorted([partition, "empty"]))
    assert view.latest_base_files(partition)[0].partition == partition
    assert view.latest_base_files("empty") == ()
    assert view.latest_base_files("unknown") == ()
