"""When a compaction is due, what it takes, and the plan as Hudi writes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError, CorruptTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.hudi.services.compaction.config import (
    CompactionConfig,
    CompactionTrigger,
    StrategyKind,
)
from tideline.hudi.services.compaction.operation import CompactionOperation
from tideline.hudi.services.compaction.plan import (
    CompactionDue,
    CompactionPlan,
    find_due,
    instants_to_look_at,
    plan_compaction,
)
from tideline.hudi.services.compaction.strategy import keep_partitions, take_operations
from tideline.hudi.services.slice_metrics import slice_metrics
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.layout.version_6 import slices_by_name
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.testing.fixtures import fixture_table

build_view = partial(FileSystemView.build, slices=slices_by_name)

V6_MOR = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
REAL_PLAN = "20250922132201931.compaction.requested"
MB = 1024 * 1024


def at(minute: int) -> InstantTime:
    return InstantTime(f"202501010{minute // 60}{minute % 60:02d}00000")


NOW = at(120)


def timeline(*words: str) -> ActiveTimeline:
    """Instants a minute apart: `delta`, `commit`, `cluster`; a `?` after it makes it pending."""
    actions = {"delta": Action.DELTACOMMIT, "commit": Action.COMMIT, "compaction":
               Action.COMPACTION, "cluster": Action.REPLACECOMMIT}  # fmt: skip
    return ActiveTimeline(
        tuple(
            Instant(
                at(minute),
                actions[word.removesuffix("?")],
                State.INFLIGHT if word.endswith("?") else State.COMPLETED,
            )
            for minute, word in enumerate(words, start=1)
        )
    )


def due(
    config: CompactionConfig,
    *words: str,
    completed_at: dict[InstantTime, InstantTime] | None = None,
) -> CompactionDue | NotDue:
    return find_due(timeline(*words), config, NOW, completed_at=completed_at or {})


@pytest.mark.parametrize(
    ("trigger", "words", "is_due"),
    [
        ("NUM_COMMITS", ["delta"] * 4, False),
        ("NUM_COMMITS", ["delta"] * 5, True),
        ("NUM_COMMITS", ["delta"] * 5 + ["commit"] + ["delta"] * 4, False),
        ("NUM_COMMITS", ["delta"] * 5 + ["commit"] + ["delta"] * 5, True),
        ("NUM_COMMITS", ["delta"] * 5 + ["compaction?"] + ["delta"] * 1, True),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", ["delta"] * 5 + ["compaction?"] + ["delta"], False),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", ["compaction?"] + ["delta"] * 5, True),
        ("TIME_ELAPSED", ["delta"], True),
        ("TIME_ELAPSED", ["commit"], False),
        ("NUM_AND_TIME", ["delta"], False),
        ("NUM_AND_TIME", ["delta"] * 5, True),
        ("NUM_OR_TIME", ["delta"], True),
    ],
)
def test_the_trigger_counts_delta_commits_or_seconds(
    trigger: str, words: Sequence[str], is_due: bool
) -> None:
    config = CompactionConfig(CompactionTrigger(trigger))
    assert isinstance(due(config, *words), CompactionDue) is is_due


def test_no_delta_commit_no_compaction() -> None:
    assert isinstance(due(CompactionConfig(delta_commits_max=1)), NotDue)


def test_a_write_that_began_before_the_last_compaction_and_ended_after_it_counts() -> None:
    config = CompactionConfig(delta_commits_max=1)
    assert isinstance(due(config, "delta", "commit"), NotDue)
    late = due(config, "delta", "commit", completed_at={at(1): at(3)})
    assert isinstance(late, CompactionDue)
    instants = timeline("delta", "commit")
    since = instants.find(at(2))
    assert since is not None
    assert [i.time for i in instants_to_look_at(instants, since, {at(1): at(3)})] == [at(1)]


@pytest.mark.parametrize("word", ["delta?", "commit?", "cluster?"])
def test_a_pending_write_is_in_the_way(word: str) -> None:
    found = due(CompactionConfig(delta_commits_max=1), "delta", word)
    assert isinstance(found, NotDue)
    assert str(at(2)) in found.reason


def test_a_pending_clustering_is_in_the_way_of_a_single_writer_only() -> None:
    config = CompactionConfig(delta_commits_max=1)
    for single_writer in (True, False):
        found = find_due(
            timeline("delta", "cluster?"),
            config,
            NOW,
            completed_at={},
            clusterings=frozenset({at(2)}),
            is_single_writer=single_writer,
        )
        assert isinstance(found, NotDue) is single_writer


def operation(
    partition: str, *, logs: int = 1, log_mb: int = 1, base_mb: int = 0
) -> CompactionOperation:
    file_id = f"f-{logs}-{log_mb}-{base_mb}"
    base = BaseFile(partition, file_id, "0-0-0", at(1), base_mb * MB) if base_mb else None
    files = tuple(
        LogFile(partition, file_id, at(1), version + 1, "0-0-0", log_mb * MB)
        for version in range(logs)
    )
    group = FileGroupId(partition, file_id)
    return CompactionOperation.of(FileSlice(group, at(1), base, files), 120 * MB)


def test_metrics_are_hudis() -> None:
    item = operation("p", logs=2, log_mb=3, base_mb=10)
    assert item.metrics == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": 6.0 * MB,
        "TOTAL_IO_READ_MB": 16.0,
        "TOTAL_IO_WRITE_MB": 10.0,
        "TOTAL_IO_MB": 26.0,
    }
    without_base = slice_metrics((operation("p").slice,), 120 * MB)
    assert without_base["TOTAL_IO_WRITE_MB"] == 120.0


def taken(config: CompactionConfig, *operations: CompactionOperation) -> list[str]:
    return [item.group.partition for item in take_operations(operations, config, NOW)]


def with_strategy(kind: StrategyKind, **settings: Any) -> CompactionConfig:
    return CompactionConfig(strategies=(kind,), **settings)


def test_by_log_size_the_largest_come_first_within_the_bound() -> None:
    small, middle, large = (operation(p, log_mb=n) for p, n in (("a", 1), ("b", 5), ("c", 9)))
    config = with_strategy(StrategyKind.LOG_FILE_SIZE)
    assert taken(config, small, large, middle) == ["c", "b", "a"]
    config = with_strategy(StrategyKind.LOG_FILE_SIZE, log_bytes_min=5 * MB)
    assert taken(config, small, large, middle) == ["c", "b"]
    config = with_strategy(StrategyKind.LOG_FILE_SIZE, io_mb_max=100)
    assert taken(config, small, large, middle) == ["c"]


def test_a_bound_without_an_order_takes_what_saves_most_for_its_bytes() -> None:
    # The same logs to merge, onto base files of 10 and of 90 MB.
    heavy, light = operation("a", base_mb=90), operation("b", base_mb=10)
    bounded = with_strategy(StrategyKind.BOUNDED_IO, io_mb_max=20)
    assert taken(bounded, heavy, light) == taken(bounded, light, heavy) == ["b"]
    # A strategy that orders keeps its order: a day comes before what it would save.
    days = with_strategy(StrategyKind.DAY, io_mb_max=20)
    newer, older = operation("2024/12/31", base_mb=90), operation("2024/12/29", base_mb=10)
    assert taken(days, older, newer) == ["2024/12/31"]
    largest = with_strategy(StrategyKind.LOG_FILE_SIZE, io_mb_max=20)
    assert taken(largest, light, operation("c", log_mb=2, base_mb=90)) == ["c"]
    # What nothing limits is planned as it is found.
    assert taken(with_strategy(StrategyKind.UNBOUNDED), heavy, light) == ["a", "b"]


def test_by_log_count_and_unbounded() -> None:
    candidate, three = operation("a"), operation("b", logs=3)
    assert taken(with_strategy(StrategyKind.LOG_FILE_COUNT), candidate, three) == ["b", "a"]
    assert taken(with_strategy(StrategyKind.LOG_FILE_COUNT, log_files_min=2), candidate, three) == [
        "b"
    ]
    assert taken(with_strategy(StrategyKind.UNBOUNDED, io_mb_max=0), candidate, three) == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (StrategyKind.DAY, ["day=2024/12/31", "day=2024/12/29"]),
        (StrategyKind.RECENT_DAYS, ["day=2024/12/31"]),
        (StrategyKind.OLDER_DAYS, ["day=2024/12/29", "day=2024/12/01"]),
    ],
)
def test_by_day_recent_partitions_come_first_or_are_left_out(
    kind: StrategyKind, expected: list[str]
) -> None:
    days = ["day=2024/12/01", "day=2024/12/31", "day=2024/12/29"]
    config = with_strategy(kind, partitions_max=2)
    assert list(keep_partitions(days, config, NOW)) == expected
    assert taken(config, *(operation(day) for day in days)) == expected


def test_a_partition_that_is_no_date_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        keep_partitions(["north"], with_strategy(StrategyKind.DAY), NOW)
    assert caught.value.value == "north"


def test_several_strategies_apply_one_after_the_other() -> None:
    read = Settings(
        {
            "hoodie.compaction.strategy": "org.apache.hudi.table.action.compact.strategy."
            "PartitionRegexBasedCompactionStrategy,LogFileNumBasedCompactionStrategy",
            "hoodie.compaction.partition.path.regex": "^a",
            "hoodie.compaction.logfile.num.threshold": "2",
        }
    )
    config = CompactionConfig.from_settings(read)
    few_logs, more_logs, elsewhere = (
        operation("a1"),
        operation("a2", logs=2),
        operation("b", logs=9),
    )
    assert taken(config, few_logs, more_logs, elsewhere) == ["a2"]


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigError):
        CompactionConfig.from_settings(Settings({"hoodie.compaction.strategy": "com.acme.Mine"}))


def view(*, compacting: str | None = None, clustering: str | None = None) -> FileSystemView:
    names = [(f"f{n}-0_0-0-0_{at(1)}.parquet", 10) for n in (1, 2, 3)] + [
        (f".f{n}-0_{at(1)}.log.1_0-0-0", 5) for n in (1, 2)
    ]
    pending = {FileGroupId("p", compacting): at(9)} if compacting else {}
    others = {FileGroupId("p", clustering): at(9)} if clustering else {}
    return build_view(
        {"p": names}, timeline("delta"), pending_compaction=pending, pending_clustering=others
    )


def test_slices_without_logs_and_groups_of_a_pending_plan_are_left_alone() -> None:
    config = CompactionConfig()
    plan = plan_compaction(view(), config, NOW, reason="because")
    assert isinstance(plan, CompactionPlan)
    assert {item.group.file_id for item in plan.operations} == {"f1-0", "f2-0"}
    assert plan.missing_partitions == ()
    for busy in (view(compacting="f1-0"), view(clustering="f1-0")):
        plan = plan_compaction(busy, config, NOW, reason="because")
        assert isinstance(plan, CompactionPlan)
        assert {item.group.file_id for item in plan.operations} == {"f2-0"}
        assert plan.missing_partitions == ("p",)
    explained = plan.explain()
    assert (explained.bytes_read, explained.bytes_written) == (15, 10)


def test_partitions_not_looked_at_are_left_for_the_next_plan() -> None:
    config = CompactionConfig(strategies=(StrategyKind.PARTITION_REGEX,), partition_regex="nothing")
    assert isinstance(plan_compaction(view(), config, NOW, reason=""), NotDue)


@pytest.mark.fixtures
def test_a_real_plan_is_read_and_written_as_it_was() -> None:
    path = fixture_table(V6_MOR) / ".hoodie" / REAL_PLAN
    record = decode_container(path.read_bytes(), "HoodieCompactionPlan")
    plan = CompactionPlan.from_avro(record, path=REAL_PLAN)
    assert plan.to_avro() == record
    (item,) = plan.operations
    assert str(item.slice.base_instant) == "20250922132151286"


@given(
    st.lists(
        st.builds(
            operation,
            st.sampled_from(["", "p", "a=1/b=2"]),
            logs=st.integers(1, 3),
            log_mb=st.integers(0, 3),
            base_mb=st.integers(0, 3),
        ),
        max_size=4,
    ),
    st.lists(st.sampled_from("abc"), max_size=2),
)
def test_plans_survive_avro(operations: list[CompactionOperation], missing: list[str]) -> None:
    plan = CompactionPlan(tuple(operations), tuple(missing))
    record = decode_container(encode_container("HoodieCompactionPlan", plan.to_avro()))
    back = CompactionPlan.from_avro(record, path="plan")
    assert back.to_avro() == plan.to_avro()


def test_a_plan_that_names_no_data_file_is_corrupt() -> None:
    plan = CompactionPlan((operation("p"),)).to_avro()
    plan["operations"][0]["deltaFilePaths"] = ["readme.txt"]
    with pytest.raises(CorruptTableError) as caught:
        CompactionPlan.from_avro(plan, path="the plan")
    assert (caught.value.path, caught.value.value) == ("the plan", "readme.txt")
