"""The active timeline as a value: most advanced states, filters, what counts as committed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.testing.fixtures import fixture_table


def at(number: int) -> InstantTime:
    return InstantTime(f"20250101000000{number:03d}")


def timeline(*spelled: str) -> ActiveTimeline:
    """Instants as `<number>.<suffix>`, with the suffixes of layout 1."""
    parsed = []
    for item in spelled:
        number, _, suffix = item.partition(".")
        instant = LAYOUT_V1.parse(f"{at(int(number))}.{suffix}")
        assert instant is not None, item
        parsed.append(instant)
    return ActiveTimeline(tuple(parsed))


def shown(view: ActiveTimeline) -> list[str]:
    """The reverse of `timeline`."""
    return [
        f"{int(str(item.time)[-3:])}.{LAYOUT_V1.file_name(item).partition('.')[2]}" for item in view
    ]


FILES = st.lists(
    st.builds(
        Instant,
        st.integers(1, 20).map(at),
        st.sampled_from([Action.COMMIT, Action.CLEAN, Action.COMPACTION, Action.SAVEPOINT]),
        st.sampled_from(State),
    ).map(lambda item: item.in_state(item.state)),
    max_size=20,
)


def test_each_instant_is_kept_in_its_most_advanced_state() -> None:
    view = timeline(
        "2.commit.requested", "1.commit", "1.inflight", "1.commit.requested", "2.inflight"
    )
    assert shown(view) == ["1.commit", "2.inflight"]


def test_a_completed_compaction_is_one_commit() -> None:
    view = timeline("1.compaction.requested", "1.compaction.inflight", "1.commit")
    assert shown(view) == ["1.commit"]
    assert not view.pending()


def test_a_completed_log_compaction_is_one_deltacommit() -> None:
    view = timeline("1.logcompaction.requested", "1.logcompaction.inflight", "1.deltacommit")
    assert shown(view) == ["1.deltacommit"]


def test_a_savepoint_stands_next_to_the_commit_it_protects() -> None:
    view = timeline("1.commit", "1.savepoint.inflight", "1.savepoint", "2.commit")
    assert shown(view) == ["1.commit", "1.savepoint", "2.commit"]
    assert view.savepointed_times() == {at(1)}
    assert view.find(at(1)) == Instant(at(1), Action.COMMIT, State.COMPLETED)


@given(FILES)
def test_the_order_of_the_listing_does_not_matter(files: list[Instant]) -> None:
    assert ActiveTimeline(tuple(files)) == ActiveTimeline(tuple(reversed(files)))
    assert list(ActiveTimeline(tuple(files))) == sorted(ActiveTimeline(tuple(files)))


@given(FILES, st.integers(0, 21).map(at), st.integers(0, 21).map(at))
def test_ranges_split_a_timeline_without_loss(
    files: list[Instant], begin: InstantTime, end: InstantTime
) -> None:
    view = ActiveTimeline(tuple(files))
    assert view.before(begin).instants + view.at_or_after(begin).instants == view.instants
    assert view.up_to(begin).instants + view.after(begin).instants == view.instants
    assert view.within(begin, end) == view.after(begin).up_to(end)
    assert sorted((*view.completed(), *view.pending())) == list(view)


def test_actions_are_filtered_by_name() -> None:
    view = timeline(
        "1.commit", "2.clean", "3.compaction.requested", "4.rollback", "5.replacecommit"
    )
    assert shown(view.of(Action.CLEAN, Action.ROLLBACK)) == ["2.clean", "4.rollback"]
    assert shown(view.writes()) == ["1.commit", "3.compaction.requested", "5.replacecommit"]
    assert shown(view.writes().completed().after(at(1))) == ["5.replacecommit"]


def test_ends_and_newest() -> None:
    view = timeline("1.commit", "3.rollback.inflight", "2.commit")
    assert view.first() == Instant(at(1), Action.COMMIT, State.COMPLETED)
    assert view.last() == Instant(at(3), Action.ROLLBACK, State.INFLIGHT)
    assert view.newest_time() == at(3)
    assert view.find(at(7)) is None


def test_a_completion_time_counts_as_newest() -> None:
    completed = Instant(at(1), Action.COMMIT, State.COMPLETED, completion_time=at(9))
    assert ActiveTimeline((completed,)).newest_time() == at(9)


def test_an_empty_timeline_has_nothing() -> None:
    view = ActiveTimeline()
    assert (view.first(), view.last(), view.newest_time(), view.start) == (None,) * 4
    assert len(view) == 0
    assert not view.is_committed(at(1))


def test_completed_and_archived_instants_are_committed_and_others_not() -> None:
    view = timeline("3.commit", "4.inflight", "5.rollback", "6.deltacommit", "7.replacecommit")
    assert [number for number in range(1, 10) if view.is_committed(at(number))] == [1, 2, 3, 6, 7]


def test_only_writes_begin_a_timeline() -> None:
    """Cleans and rollbacks are archived later than the commits around them."""
    view = timeline("1.clean", "2.rollback", "4.commit")
    assert view.start == at(4)
    assert view.is_committed(at(3))


def test_a_commit_kept_back_by_its_savepoint_does_not_begin_the_timeline() -> None:
    view = timeline("1.commit", "1.savepoint", "5.commit", "6.commit")
    assert view.start == at(5)
    assert view.is_committed(at(1))
    assert view.is_committed(at(3))


def test_where_savepoints_keep_all_commits_what_is_older_is_archived_all_the_same() -> None:
    view = timeline("1.commit", "1.savepoint", "5.commit", "5.savepoint")
    assert view.start == at(5)
    assert view.is_committed(at(3))
    assert not view.is_committed(at(6))


def test_a_failed_first_commit_is_not_taken_for_an_archived_one() -> None:
    view = timeline("1.inflight", "2.commit")
    for seen in (view, view.completed(), view.completed().writes()):
        assert not seen.is_committed(at(1))
        assert seen.is_committed(at(2))


def test_a_view_of_the_past_knows_no_later_commit_but_still_the_archive() -> None:
    view = timeline("3.commit", "5.commit").up_to(at(4)).completed()
    assert [number for number in range(1, 7) if view.is_committed(at(number))] == [1, 2, 3]
    assert [number for number in range(1, 7) if view.after(at(3)).is_committed(at(number))] == [
        1,
        2,
    ]


@pytest.mark.fixtures
def test_a_real_timeline_has_one_instant_per_action() -> None:
    folder = fixture_table("hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor")
    parsed = (LAYOUT_V1.parse(file.name) for file in (folder / ".hoodie").iterdir())
    view = ActiveTimeline(tuple(item for item in parsed if item is not None))
    assert [str(item.action) for item in view] == [
        "deltacommit",
        "deltacommit",
        "deltacommit",
        "commit",
        "replacecommit",
        "deltacommit",
        "clean",
        "deltacommit",
    ]
    assert view.start == InstantTime("20250922132154428")
    assert view.is_committed(InstantTime("20250922132151286"))
