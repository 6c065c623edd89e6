"""The options of a rewrite: Iceberg's names and defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError
from tideline.iceberg.services.rewrite_data_files.options import (
    JobOrder,
    RewriteOptions,
    RewriteStrategy,
)
from tideline.iceberg.services.rewrite_data_files.sort_terms import SortTerm

MIB = 1024 * 1024


def options(strategy: str | None = None, order: str | None = None, **given: str) -> RewriteOptions:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in given.items()}
    return RewriteOptions.parse(named, properties={}, strategy=strategy, sort_order=order)


def test_the_defaults_are_icebergs() -> None:
    parsed = options()
    assert parsed == RewriteOptions()
    assert parsed.target_size_bytes == 512 * MIB
    assert (parsed.size_bytes_min, parsed.size_bytes_max) == (384 * MIB, 966_367_641)
    assert (parsed.input_files_min, parsed.group_size_bytes_max) == (5, 100 * 1024 * MIB)
    assert parsed.delete_ratio_threshold == 0.3 and parsed.delete_files_threshold is None
    assert parsed.use_starting_sequence_number and not parsed.partial_progress
    assert (parsed.commits_max, parsed.concurrent_groups_max) == (10, 5)
    assert parsed.job_order is JobOrder.NONE


def test_sizes_follow_the_target_and_the_target_follows_the_table() -> None:
    table = {"write.target-file-size-bytes": "1000"}
    parsed = RewriteOptions.parse({}, properties=table)
    assert (parsed.target_size_bytes, parsed.size_bytes_min, parsed.size_bytes_max) == (
        1000,
        750,
        1800,
    )
    assert parsed.write_size_bytes_max == 1400
    narrower = RewriteOptions.parse({"target-file-size-bytes": "100"}, properties=table)
    assert narrower.target_size_bytes == 100


def test_failed_commits_default_to_all_commits() -> None:
    parsed = options(partial_progress__enabled="true", partial_progress__max_commits="3")
    assert parsed.partial_progress
    assert (parsed.commits_max, parsed.failed_commits_max) == (3, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_input_file": "3"}, "did you mean min-input-files?"),
        ({"target_file_size_bytes": "0"}, "target-file-size-bytes must be at least 1"),
        ({"target_file_size_bytes": "many"}, "target-file-size-bytes takes a whole number"),
        ({"target_file_size_bytes": "10", "min_file_size_bytes": "10"}, "min-file-size-bytes"),
        ({"target_file_size_bytes": "10", "max_file_size_bytes": "10"}, "max-file-size-bytes"),
        ({"delete_ratio_threshold": "1.5"}, "above 0 and at most 1"),
        ({"delete_ratio_threshold": "0"}, "above 0"),
        ({"delete_ratio_threshold": "nan"}, "above 0"),
        ({"rewrite_all": "yes"}, "rewrite-all takes true or false"),
        ({"rewrite_job_order": "size"}, "bytes-asc"),
        ({"compression_factor": "0.5"}, "no such option of a binpack rewrite"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(**given)


def test_options_belong_to_strategies() -> None:
    sort = options("sort", compression_factor="0.5", shuffle_partitions_per_file="2")
    assert (sort.compression_factor, sort.shuffle_partitions_per_file) == (0.5, 2)
    with pytest.raises(ConfigError, match="of a sort rewrite"):
        options("sort", max_output_size="16")
    curve = options("sort", "zorder(a, b)", max_output_size="16", var_length_contribution="4")
    assert curve.strategy is RewriteStrategy.ZORDER
    assert (curve.zorder_bytes_max, curve.zorder_string_bytes) == (16, 4)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a", [SortTerm("a")]),
        ("a DESC", [SortTerm("a", is_descending=True, nulls_first=False)]),
        ("a asc nulls last, b", [SortTerm("a", nulls_first=False), SortTerm("b")]),
        (
            "bucket(4, a) desc nulls first",
            [SortTerm("a", "bucket[4]", is_descending=True)],
        ),
        ("truncate(a.b, 3)", [SortTerm("a.b", "truncate[3]")]),
        ("days(ts),`odd name`", [SortTerm("ts", "day"), SortTerm("odd name")]),
    ],
)
def test_sort_orders_are_read_as_iceberg_writes_them(text: str, terms: list[SortTerm]) -> None:
    parsed = options(None, text)
    assert parsed.strategy is RewriteStrategy.SORT
    assert list(parsed.sort_terms) == terms


@pytest.mark.parametrize(
    ("strategy", "order", "message"),
    [
        ("binpack", "a", "takes no sort order"),
        ("zorder", None, "needs its columns"),
        ("zorder", "zorder(a desc)", "plain column names"),
        (None, "a descending", "cannot be read"),
        (None, "a,,b", "cannot be read"),
        ("hilbert", None, "binpack, sort, zorder"),
    ],
)
def test_strategies_and_orders_that_do_not_fit_are_refused(
    strategy: str | None, order: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        options(strategy, order)


@pytest.mark.parametrize(
    ("input_bytes", "files"),
    [(0, 1), (99, 1), (100, 1), (109, 1), (110, 1), (111, 2), (175, 2), (176, 2), (299, 3),
     (220, 2), (222, 3), (1010, 10), (1076, 11), (1099, 11)],
)  # fmt: skip
def test_a_small_remainder_is_spread_over_the_other_files(input_bytes: int, files: int) -> None:
    assert options(target_file_size_bytes="100").outputs_expected(input_bytes) == files


@given(st.integers(1, 10**6), st.integers(0, 10**9), st.floats(1.01, 10))
def test_output_files_never_exceed_the_write_limit_and_splits_lie_between(
    target: int, input_bytes: int, factor: float
) -> None:
    largest = max(target + 1, int(target * factor))
    parsed = RewriteOptions(
        target_size_bytes=target, size_bytes_min=target * 3 // 4, size_bytes_max=largest
    )
    files = parsed.outputs_expected(input_bytes)
    assert files >= 1
    assert input_bytes / files <= max(target, 1.1 * target)
    assert (
        target <= parsed.split_size_bytes(input_bytes) <= max(target, parsed.write_size_bytes_max)
    )


def test_a_compression_factor_counts_only_where_rows_move() -> None:
    half: dict[str, Any] = {"target_size_bytes": 100, "size_bytes_min": 75, "size_bytes_max": 180}
    sort = RewriteOptions(strategy=RewriteStrategy.SORT, compression_factor=0.5, **half)
    assert sort.outputs_expected(400) == 2
    assert RewriteOptions(compression_factor=0.5, **half).outputs_expected(400) == 4
