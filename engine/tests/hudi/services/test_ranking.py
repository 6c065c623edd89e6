"""Which work goes first: benefit per core-second, after what it builds on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.hudi.services.registry import TableService, all_services
from tideline.services.benefit import FILE_OPENED_BYTES, Benefit
from tideline.services.explanation import Estimate, Explanation
from tideline.services.ranking import (
    BYTES_MOVED_PER_CORE_SECOND,
    OBJECTS_PER_CORE_SECOND,
    benefit_per_core_second,
    default_core_seconds,
    ranked,
)

MIB = 1024 * 1024


def order(rates: dict[str, float | None], *pairs: tuple[str, str]) -> list[str]:
    """The names in their order; of a pair the first follows the second."""
    return list(
        ranked(list(rates), rates.__getitem__, lambda service, other: (service, other) in pairs)
    )


def test_what_saves_most_per_core_second_goes_first() -> None:
    assert order({"a": 1.0, "b": 3.0, "c": 2.0}) == ["b", "c", "a"]


def test_equal_ones_keep_their_order_and_unknown_ones_go_first() -> None:
    assert order({"a": 1.0, "b": 1.0, "c": None, "d": None}) == ["c", "d", "a", "b"]


def test_nothing_goes_before_what_it_follows() -> None:
    assert order({"a": 1.0, "b": 9.0, "c": 5.0}, ("b", "a")) == ["c", "a", "b"]
    # Of works that follow each other the order given decides, and none is lost.
    assert sorted(order({"a": 1.0, "b": 2.0}, ("a", "b"), ("b", "a"))) == ["a", "b"]


@given(st.permutations(all_services()), st.lists(st.floats(-1e9, 1e9), min_size=8, max_size=8))
def test_services_never_go_before_those_they_build_on(
    services: list[TableService], rates: list[float]
) -> None:
    rate = dict(zip(services, rates, strict=True))
    done = ranked(
        services, rate.__getitem__, lambda table_service, other: table_service.goes_after(other)
    )
    assert set(done) == set(services)
    names = [service.name for service in done]
    assert names[0] == "rollback"
    assert names.index("cleaning") < names.index("archival")
    assert names.index("compaction") < names.index("log_compaction")


def test_savings_are_compared_in_bytes_that_a_scan_no_longer_reads() -> None:
    assert Benefit(bytes_scanned=7).benefit_bytes == 7
    assert Benefit(files_opened=2).benefit_bytes == 2 * FILE_OPENED_BYTES == 8 * MIB
    assert Benefit(delta_files=3, delta_bytes=10).benefit_bytes == 50
    assert Benefit(objects_listed=1_000).benefit_bytes == pytest.approx(FILE_OPENED_BYTES, rel=1e-3)
    assert Benefit(bytes_stored=9).benefit_bytes == 9
    assert (Benefit(1, 2, 3, 4, 5, 6) + Benefit(1, 1, 1, 1, 1, 1)) == Benefit(2, 3, 4, 5, 6, 7)


def test_a_saving_reads_as_words_and_survives_json() -> None:
    benefit = Benefit(files_opened=1, bytes_scanned=-2_000, delta_files=3, bytes_stored=5)
    assert benefit.words == (
        "1 file fewer to open, 3 delta files fewer to merge, 2.0 kB more to read, 5 B less to keep"
    )
    assert Benefit().words == "nothing that can be counted"
    assert Benefit.from_json_object(benefit.to_json_object()) == benefit
    assert Benefit.from_json_object({"files_opened": 4, "of_a_later_release": 1}).files_opened == 4


def test_costs_are_estimated_from_bytes_and_files_before_the_first_run() -> None:
    assert default_core_seconds(BYTES_MOVED_PER_CORE_SECOND, OBJECTS_PER_CORE_SECOND) == 2.0
    assert default_core_seconds(0, 0) > 0
    assert benefit_per_core_second(100, 4.0) == 25.0
    assert benefit_per_core_second(100, 0.0) < 1e6
    plan = Explanation(
        "due", ("a",) * 500, bytes_read=40_000_000, bytes_written=10_000_000, benefit=Benefit(6)
    )
    assert plan.core_seconds == 2.0
    assert plan.benefit_per_core_second == 12 * MIB
    assert plan.estimated(Estimate(1.0, 3.0)).benefit_per_core_second == 8 * MIB
