"""Preparing what tests compare with: silent where it is there, else with progress."""

from __future__ import annotations

import pytest

from tideline.testing import peers
from tideline.testing.peers import Step, prepare


def step(what: str, module: str, required: bool = True) -> Step:
    """A module of Python's own; `timeit` takes a while."""
    words = {"quick": ("this",), "slow": ("timeit", "-n1", "-r1", "import time; time.sleep(2)")}
    return Step(what, words.get(module, (module,)), required)


def test_what_is_there_takes_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(((step("one", "quick"), step("two", "quick")), (step("three", "quick"),))) == 0
    assert capsys.readouterr().err == ""


def test_what_takes_long_is_named_meanwhile_and_when_it_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "_QUIET_S", 0.2)
    monkeypatch.setattr(peers, "_BETWEEN_LINES_S", 0.2)
    assert prepare(((step("the peer", "slow"),),)) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("once for this machine: the peer (")
    assert lines[-1].startswith("the peer: ")


def test_a_failure_is_shown_and_ends_what_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(((step("gone", "no_such_module"), step("after", "no_such_either")),)) == 1
    told = capsys.readouterr().err
    assert "gone: failed" in told
    assert "no_such_module" in told
    assert "after" not in told


def test_what_only_some_tests_need_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(((step("gone", "no_such_module", required=False), step("x", "quick")),)) == 0
    assert "gone: failed" in capsys.readouterr().err
