"""Slices of versions 8 and 9: when its commit completed says which one a log belongs to."""

from __future__ import annotations

import pytest

from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.layout.version_8 import slices_by_completion
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

A = "aaaaaaaa-0"
GROUP = FileGroupId("p", A)


def at(number: int) -> InstantTime:
    return InstantTime(f"202501010000{number:05d}")


def base(number: int, token: str = "0-1-2") -> str:
    return f"{A}_{token}_{at(number)}.parquet"


def log(number: int, version: int = 1, suffix: str = "") -> str:
    return f".{A}_{at(number)}.log.{version}_0-1-2{suffix}"


def timeline(*times: tuple[int, int], compacting: int | None = None) -> ActiveTimeline:
    """Deltacommits as (requested, completed)."""
    done = [
        Instant(at(requested), Action.DELTACOMMIT, State.COMPLETED, at(completed))
        for requested, completed in times
    ]
    plans = [] if compacting is None else [compacting]
    planned = [Instant(at(plan), Action.COMPACTION, State.REQUESTED) for plan in plans]
    return ActiveTimeline((*done, *planned))


def view(
    names: list[str],
    shown: ActiveTimeline,
    *,
    compacting: int | None = None,
    archived: dict[int, int] | None = None,
    asked: list[int] | None = None,
) -> FileSystemView:
    def completion(time: InstantTime) -> InstantTime | None:
        number = int(time.value[-5:])
        if asked is not None:
            asked.append(number)
        return at((archived or {})[number]) if number in (archived or {}) else None

    return FileSystemView.build(
        {"p": [(name, 1) for name in names]},
        shown,
        pending_compaction={} if compacting is None else {GROUP: at(compacting)},
        slices=slices_by_completion,
        archived=completion,
    )


def slices(seen: FileSystemView) -> dict[int, list[int]]:
    """Per base instant the instants of its logs."""
    return {
        int(file_slice.base_instant.value[-5:]): [
            int(log_file.instant.value[-5:]) for log_file in file_slice.log_files
        ]
        for group in seen.all_file_groups("p")
        for file_slice in group.slices
    }


def latest(seen: FileSystemView, as_of: int | None = None) -> FileSlice:
    (file_slice,) = seen.latest_slices("p", None if as_of is None else at(as_of))
    return file_slice


def test_a_log_belongs_to_the_newest_slice_that_began_before_its_commit_completed() -> None:
    shown = timeline((10, 11), (15, 16), (17, 25), (20, 29), (30, 31))
    seen = view([base(10), base(20), log(15), log(17), log(30)], shown)
    assert slices(seen) == {20: [17, 30], 10: [15]}


@pytest.mark.parametrize(("completed", "slice_of"), [(19, 10), (20, 20), (21, 20)])
def test_what_completes_in_the_very_moment_a_slice_begins_belongs_to_it(
    completed: int, slice_of: int
) -> None:
    shown = timeline((10, 11), (15, completed), (20, 29))
    assert slices(view([base(10), base(20), log(15)], shown))[slice_of] == [15]


def test_a_pending_compaction_begins_a_slice_whose_logs_go_on_top_of_the_one_before() -> None:
    shown = timeline((10, 11), (15, 16), (17, 25), (18, 19), compacting=20)
    seen = view([base(10), log(15), log(17), log(18)], shown, compacting=20)
    assert slices(seen) == {20: [17], 10: [15, 18]}
    file_slice = latest(seen)
    assert file_slice.base_file is not None
    assert file_slice.base_file.instant == at(10)
    assert [str(log_file.instant)[-2:] for log_file in file_slice.log_files] == ["15", "17", "18"]


def test_the_first_log_of_a_group_without_a_base_file_begins_its_slice() -> None:
    shown = timeline((10, 20), (15, 16), (30, 31))
    seen = view([log(15), log(10), log(30)], shown)
    assert slices(seen) == {10: [10, 15, 30]}
    assert latest(seen).base_file is None


def test_a_log_older_than_a_pending_compaction_begins_a_slice_before_it() -> None:
    seen = view([log(5), log(8)], timeline((5, 7), (8, 12), compacting=10), compacting=10)
    assert slices(seen) == {10: [8], 5: [5]}
    assert [str(log_file.instant)[-2:] for log_file in latest(seen).log_files] == ["05", "08"]


def test_files_of_commits_that_did_not_complete_are_left_out_whole() -> None:
    pending = Instant(at(30), Action.DELTACOMMIT, State.INFLIGHT)
    shown = ActiveTimeline((*timeline((10, 11)).instants, pending))
    assert slices(view([base(10), base(30), log(30)], shown)) == {10: []}
    assert slices(view([log(30)], shown)) == {}


def test_logs_are_in_the_order_of_their_commits_and_versions() -> None:
    shown = timeline((10, 11), (20, 29), (21, 22))
    file_slice = latest(view([base(10), log(21), log(20, 10), log(20, 2)], shown))
    found = [(str(log_file.instant)[-2:], log_file.version) for log_file in file_slice.log_files]
    assert found == [("20", 2), ("20", 10), ("21", 1)]


def test_logs_of_changes_are_no_logs_to_merge() -> None:
    file_slice = latest(view([base(10), log(20), log(20, 1, ".cdc")], timeline((10, 11), (20, 21))))
    assert [log_file.is_cdc for log_file in file_slice.log_files] == [False]
    assert [cdc_file.is_cdc for cdc_file in file_slice.cdc_files] == [True]


def test_the_archive_is_asked_only_where_a_slice_began_after_the_commit_was_requested() -> None:
    shown = timeline((50, 51))
    asked: list[int] = []
    assert slices(view([base(10), log(12)], shown, asked=asked)) == {10: [12]}
    assert asked == []
    names = [base(10), base(20), log(12), log(15), log(30)]
    seen = view(names, shown, archived={12: 13, 15: 22}, asked=asked)
    assert slices(seen) == {20: [15, 30], 10: [12]}
    assert asked == [12, 15]


def test_where_nothing_says_the_completion_the_log_goes_to_the_newest_slice() -> None:
    assert slices(view([base(10), base(20), log(15)], timeline((50, 51)))) == {20: [15], 10: []}


def test_logs_that_an_upgrade_left_stay_in_the_slice_of_their_name() -> None:
    shown = timeline((10, 11), (40, 45))
    assert slices(view([base(10), log(10, 1), log(10, 2), base(40)], shown)) == {
        40: [],
        10: [10, 10],
    }


def test_as_of_an_instant_a_log_that_completed_later_is_still_there() -> None:
    shown = timeline((10, 11), (15, 25), (17, 18), (20, 29), (30, 31))
    seen = view([base(10), base(20), log(15), log(17), log(30)], shown)
    assert latest(seen).base_instant == at(20)
    before = latest(seen, as_of=17)
    assert before.base_instant == at(10)
    assert [str(log_file.instant)[-2:] for log_file in before.log_files] == ["15", "17"]
