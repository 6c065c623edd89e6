"""Which log blocks count: commit state, rollback commands, log compactions, damage."""

from __future__ import annotations

import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.log_block import BlockFrame, BlockKind, HeaderKey
from tideline.hudi.log.block_scan import SelectedBlocks, select_blocks
from tideline.hudi.table.file_group import LogFile
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime


def time(number: int) -> InstantTime:
    return InstantTime(f"2025010100000{number:04d}")


def committed(*numbers: int, latest: int | None = None) -> CommittedInstants:
    times = frozenset(map(time, numbers))
    return CommittedInstants(times, latest=time(latest) if latest else max(times, default=None))


def data(number: int, **headers: str) -> BlockFrame:
    texts = {HeaderKey.INSTANT_TIME: str(time(number))}
    texts |= {HeaderKey[name.upper()]: text for name, text in headers.items()}
    return BlockFrame(BlockKind.AVRO_DATA, texts, 0, 0, 0, 0)


def compacted(number: int, *of: int) -> BlockFrame:
    return data(number, compacted_block_times=",".join(str(time(item)) for item in of))


def rollback(target: int) -> BlockFrame:
    texts = {
        HeaderKey.INSTANT_TIME: str(time(9999)),
        HeaderKey.TARGET_INSTANT_TIME: str(time(target)),
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    return BlockFrame(BlockKind.COMMAND, texts, 0, 0, 0, 0)


def corrupt() -> BlockFrame:
    return BlockFrame(BlockKind.CORRUPT, {}, 0, 0, 0, 0)


def select(instants: CommittedInstants, *files: list[BlockFrame]) -> SelectedBlocks:
    return select_blocks(
        [
            (LogFile("p", "f", time(0), version, "1-0-1", 1), frames)
            for version, frames in enumerate(files, start=1)
        ],
        instants,
    )


def numbers(selected: SelectedBlocks) -> list[int]:
    return [int(block.frame.headers[HeaderKey.INSTANT_TIME][-4:], 10) for block in selected.blocks]


def test_blocks_come_by_instant_in_the_order_they_were_written() -> None:
    selected = select(committed(1, 2, 3), [data(1), data(2)], [data(1), data(3)])
    assert numbers(selected) == [1, 1, 2, 3]
    assert selected.instants == (time(1), time(2), time(3))
    assert selected.total_blocks == 4


def test_pending_unknown_and_later_instants_are_left_out() -> None:
    seen = [data(1), data(2), data(3), data(4)]
    assert numbers(select(committed(1, 3), seen)) == [1, 3]
    assert numbers(select(committed(1, 3, 4, latest=3), seen)) == [1, 3]


def test_instants_before_the_timeline_are_archived_ones() -> None:
    instants = CommittedInstants(frozenset({time(5)}), time(5), time(5))
    assert numbers(select(instants, [data(1), data(4), data(5), data(6)])) == [1, 4, 5]


def test_a_rollback_removes_what_came_before_it_and_nothing_after() -> None:
    selected = select(committed(1, 2), [data(1), data(2)], [rollback(2)], [data(2)])
    assert numbers(selected) == [1, 2]
    assert selected.rollback_blocks == 1
    assert numbers(select(committed(1, 2), [data(2), data(1), rollback(2)])) == [1]
    assert numbers(select(committed(1), [data(1), rollback(7)])) == [1]


def test_an_instant_written_again_after_its_rollback_comes_last() -> None:
    selected = select(committed(1, 2), [data(1), data(2), rollback(1), data(1)])
    assert numbers(selected) == [2, 1]


def test_corrupt_blocks_are_counted_and_skipped() -> None:
    selected = select(committed(1), [data(1), corrupt()], [corrupt()])
    assert numbers(selected) == [1]
    assert (selected.total_blocks, selected.corrupt_blocks) == (3, 2)


def test_a_log_compaction_takes_the_place_of_its_newest_constituent() -> None:
    selected = select(committed(1, 2, 3, 4), [data(1), data(2)], [data(3)], [compacted(4, 2, 1)])
    assert numbers(selected) == [4, 3]


def test_log_compactions_of_log_compactions_are_followed() -> None:
    selected = select(
        committed(1, 2, 3, 4, 5, 6),
        [data(1), data(2), compacted(3, 1, 2), data(4), compacted(5, 3, 4, 1, 2), data(6)],
    )
    assert numbers(selected) == [5, 6]


def test_a_log_compaction_that_is_pending_changes_nothing() -> None:
    assert numbers(select(committed(1, 2), [data(1), data(2), compacted(3, 1, 2)])) == [1, 2]


def test_a_log_compaction_without_its_constituents_gives_nothing() -> None:
    assert numbers(select(committed(3), [compacted(3, 1, 2)])) == []


def test_blocks_that_say_nothing_of_their_instant_are_refused_naming_the_file() -> None:
    nameless = BlockFrame(BlockKind.AVRO_DATA, {}, 0, 0, 0, 0)
    with pytest.raises(CorruptTableError, match=r"INSTANT_TIME.*path=p/\.f_"):
        select(committed(1), [nameless])


def test_unknown_commands_are_refused_naming_the_file() -> None:
    command = BlockFrame(BlockKind.COMMAND, {HeaderKey.COMMAND_BLOCK_TYPE: "1"}, 0, 0, 0, 0)
    with pytest.raises(UnsupportedTableError, match=r"unknown command.*path=p/\.f_"):
        select(committed(1), [command])


def test_the_instants_of_a_timeline_are_those_that_completed() -> None:
    timeline = ActiveTimeline(
        (
            Instant(time(2), Action.DELTACOMMIT, State.COMPLETED),
            Instant(time(3), Action.DELTACOMMIT, State.INFLIGHT),
            Instant(time(4), Action.COMPACTION, State.REQUESTED),
            Instant(time(5), Action.DELTACOMMIT, State.COMPLETED),
            Instant(time(6), Action.CLEAN, State.COMPLETED),
        )
    )
    instants = CommittedInstants.of(timeline)
    assert [number for number in range(1, 8) if instants.contains(time(number))] == [1, 2, 5]
    assert instants.latest == time(5)
    until = CommittedInstants.of(timeline, time(3))
    assert [number for number in range(1, 8) if until.contains(time(number))] == [1, 2]


def test_where_nothing_was_archived_only_what_the_timeline_has_is_committed() -> None:
    instant = Instant(time(2), Action.DELTACOMMIT, State.COMPLETED)
    instants = CommittedInstants.of(ActiveTimeline((instant,), has_archive=False))
    assert not instants.contains(time(1))
    assert instants.contains(time(2))
