"""What a run costs counts the processes below this one, also those that a child started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tideline import resource_usage
from tideline.resource_usage import ResourceUsage

_SPENDS = """
import sys, time
while time.process_time() < 0.4:
    pass
print("spent", flush=True)
sys.stdin.read()
"""
_STARTS_ONE = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_SPENDS!r}])"


@contextmanager
def _spending(code: str) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"spent\n"
        yield
        child.communicate()


def test_a_living_child_and_a_child_of_it_are_counted() -> None:
    for code in (_SPENDS, _STARTS_ONE):
        before = ResourceUsage.so_far()
        with _spending(code):
            spent = ResourceUsage.so_far().since(before)
            assert spent.core_seconds - spent.own_core_seconds > 0.3


def test_where_the_system_says_nothing_this_process_alone_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_usage, "_PROCESSES", tmp_path / "none")
    with _spending(_SPENDS):
        usage = ResourceUsage.so_far()
    assert usage.core_seconds >= usage.own_core_seconds > 0
