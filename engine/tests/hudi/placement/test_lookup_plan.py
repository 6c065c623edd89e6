"""Where keys are looked up: tables of cases of the plan, and what a sample tells."""

from __future__ import annotations

import numpy as np
import pytest

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.placement.lookup_plan import (
    LookupPlan,
    SampledKeys,
    index_seconds,
    listing_seconds,
    plan_lookup,
)
from tideline.hudi.table.file_group import BaseFile, FileSlice, LogFile
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.timeline.instant_time import InstantTime

TIME = InstantTime("20250101000000001")
INDEX, FILES, SAMPLE = LookupPlan.INDEX, LookupPlan.FILES, LookupPlan.SAMPLE
MB = 1_000_000


def file_slice(number: int, size_bytes: int, log_bytes: tuple[int, ...] = ()) -> FileSlice:
    base = parse_data_file("p", f"{number:08}-0_0-0-0_{TIME}.parquet", size_bytes)
    assert isinstance(base, BaseFile)
    logs = []
    for version, length in enumerate(log_bytes, 1):
        log = parse_data_file("p", f".{number:08}-0_{TIME}.log.{version}_0-0-0", length)
        assert isinstance(log, LogFile)
        logs.append(log)
    return FileSlice(base.group, TIME, base, tuple(logs))


def index(groups: int, size_bytes: int, log_bytes: tuple[int, ...] = ()) -> list[FileSlice]:
    return [file_slice(number, size_bytes, log_bytes) for number in range(groups)]


def files(count: int, size_bytes: int) -> list[LookupCandidate]:
    return [LookupCandidate(file_slice(number, size_bytes)) for number in range(count)]


@pytest.mark.parametrize(
    ("keys", "stored", "searched", "sample", "plan"),
    [
        # Few keys in many files: how many have them makes no difference.
        (2_000, index(10, MB), files(10_000, 100 * MB), None, INDEX),
        # As many keys as files: all may be touched, or none.
        (20_000, index(10, MB), files(1_000, 100 * MB), None, SAMPLE),
        (20_000, index(10, MB), files(1_000, 100 * MB), SampledKeys(1_000, 0, 0), INDEX),
        (20_000, index(10, MB), files(1_000, 100 * MB), SampledKeys(1_000, 8, 0), INDEX),
        (20_000, index(10, MB), files(1_000, 100 * MB), SampledKeys(1_000, 630, 370), FILES),
        # Some large files: nearly all of them are read anyway.
        (5_000, index(10, MB), files(100, 100 * MB), SampledKeys(1_000, 99, 0), FILES),
        (5_000, index(10, MB), files(100, 100 * MB), SampledKeys(1_000, 50, 0), INDEX),
        # A few files cost less than any look into the index.
        (2_000, index(10, MB), files(4, MB), None, FILES),
        (2_000, index(10, MB), [], None, FILES),
        # Millions of new keys: each costs more than its share of the columns of keys.
        (1_000_000, index(10, 20 * MB), files(50, 100 * MB), None, FILES),
        # Logs of an index are read whole.
        (2_000, index(10, MB, (200 * MB,)), files(1_000, MB), None, FILES),
    ],
)
def test_keys_are_looked_up_where_it_costs_less(
    keys: int,
    stored: list[FileSlice],
    searched: list[LookupCandidate],
    sample: SampledKeys | None,
    plan: LookupPlan,
) -> None:
    assert plan_lookup(keys, stored, searched, sample) is plan


def test_a_plan_never_turns_to_the_index_as_more_files_have_the_keys() -> None:
    stored, searched = index(10, MB), files(500, 50 * MB)
    plans = [
        plan_lookup(10_000, stored, searched, SampledKeys(1_000, groups, 0))
        for groups in range(0, 501, 10)
    ]
    assert {INDEX, FILES} == set(plans)
    assert plans == sorted(plans, key=[INDEX, FILES].index)


def test_more_keys_and_larger_indexes_cost_more() -> None:
    by_keys = [index_seconds(keys, index(10, MB)) for keys in (1, 10, 1_000, 100_000)]
    assert by_keys == sorted(set(by_keys))
    assert index_seconds(5, index(10, MB)) < index_seconds(5, index(10, MB, (MB,)))
    # Blocks, not files.
    large = index_seconds(5, index(1_000, 1_000 * MB))
    assert index_seconds(5, index(10, MB)) == pytest.approx(large)
    assert index_seconds(5, []) == pytest.approx(index_seconds(10, []) / 2)
    assert listing_seconds(index(1, MB)) < listing_seconds(index(1, MB, (MB,)))


@pytest.mark.parametrize(("groups", "skew"), [(50, 0.0), (1_000, 0.0), (1_000, 1.2), (20_000, 0.5)])
def test_a_sample_tells_how_many_file_groups_have_keys_at_most(groups: int, skew: float) -> None:
    """Of keys that are spread over file groups evenly, or over some more than over others."""
    random = np.random.default_rng(39)
    weights = np.arange(1, groups + 1, dtype=float) ** -skew
    places = random.choice(groups, 20_000, p=weights / weights.sum())
    sample = SampledKeys.of(1_000, places[:1_000].tolist())
    touched = len(np.unique(places))
    assert touched * 0.95 <= min(groups, sample.groups_of(20_000))


def test_keys_that_are_new_are_in_no_file_group() -> None:
    assert SampledKeys.of(1_000, []).groups_of(1_000_000) == 0
    assert SampledKeys.of(4, ["a", "b", "b"]) == SampledKeys(4, 2, 1)
    assert SampledKeys.of(4, ["a", "b", "b"]).groups_of(8) == 3
