"""What `make test` leaves out is what took long, and of a file one test stays."""

from __future__ import annotations

from pathlib import Path

from tideline.testing.file_seconds import seconds_in
from tideline.testing.measured_tests import LEFT_TO_SLOW, left_out, listed, rewrite


def test_a_quick_function_stays_with_all_its_parameters() -> None:
    assert _slow({"a.py::test_it[1]": 0.6, "a.py::test_it[2]": 0.5}) == set()


def test_of_a_long_function_the_quickest_parameter_stays_and_what_takes_nothing() -> None:
    seconds = {"a.py::test_it[1]": 2.0, "a.py::test_it[2]": 2.1, "a.py::test_it[3]": 0.1}
    assert _slow({**seconds, "a.py::test_it[4]": 0.2}) == {
        "a.py::test_it[1]",
        "a.py::test_it[2]",
    }


def test_a_long_function_is_left_whole_where_others_of_its_file_stay() -> None:
    seconds = {"a.py::test_long": 9.0, "a.py::test_short": 0.1}
    assert _slow(seconds) == {"a.py::test_long"}
    assert _slow({"a.py::test_long": 9.0, "a.py::test_longer": 10.0}) == {"a.py::test_longer"}
    assert _slow({"a.py::test_with_an_engine": 30.0}) == {"a.py::test_with_an_engine"}


def test_files_that_are_kept_stay_whole() -> None:
    for file in LEFT_TO_SLOW.kept:
        assert _slow({f"{file}::test_it[{number}]": 9.0 for number in range(3)}) == set()


def test_what_was_not_measured_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "measured_slow.txt"
    path.write_text("# a comment\na.py::test_old\na.py::test_faster\n")
    measured = {"a.py::test_faster": 0.1, "b.py::test_new": 5.0, "b.py::test_quick": 0.1}
    rewrite(path, "slow", set(measured), _slow(measured))
    assert listed(path) == {"a.py::test_old", "b.py::test_new"}
    assert path.read_text().startswith("# Tests that are left to `make slow`")


def test_tests_of_a_contract_are_those_of_the_class_that_ran_them(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    module, contract = "engine.tests.suite.test_peers", "engine/tideline/testing/store_contract.py"
    report.write_text(
        "<testsuites><testsuite>"
        f'<testcase classname="{module}.TestStore" name="test_a[1]" file="{contract}" time="2"/>'
        f'<testcase classname="{module}" name="test_b" file="engine/tests/suite/test_peers.py"/>'
        "</testsuite></testsuites>"
    )
    assert seconds_in(report) == {
        "engine/tests/suite/test_peers.py::TestStore::test_a[1]": 2.0,
        "engine/tests/suite/test_peers.py::test_b": 0.0,
    }


def _slow(seconds: dict[str, float]) -> set[str]:
    return left_out(seconds, LEFT_TO_SLOW)
