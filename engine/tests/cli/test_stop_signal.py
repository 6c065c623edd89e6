"""SIGTERM before and after the outcome is known, and when undoing takes too long."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tideline.cli.stop_signal import EXIT_CODE
from tideline.testing.patience import PATIENCE_S

PROGRAM = """
import sys, threading, time
from tideline.cli.stop_signal import StopSignal

def last_words():
    print("last words", flush=True)

cancelled = threading.Event()

def cancel():
    {cancel}

with StopSignal({grace_s}, cancel, last_words) as stop:
    try:
        print("ready", flush=True)
        {work}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        {undo}
    stop.settled()
    print("settled", flush=True)
    time.sleep({after_s})
sys.exit(7)
"""
HANGS = "import threading; threading.Event().wait()"


@pytest.fixture
def run_program() -> Callable[..., tuple[int, list[str]]]:
    """Runs it, sends SIGTERM when it is at `at`; gives its exit code and its lines."""

    def run(
        work: str = "time.sleep(60)",
        undo: str = "pass",
        *,
        cancel: str = "return False",
        grace_s: float = 60,
        after_s: float = 0,
        at: str = "ready",
        signals: int = 1,
    ) -> tuple[int, list[str]]:
        text = PROGRAM.format(grace_s=grace_s, cancel=cancel, work=work, undo=undo, after_s=after_s)
        with subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line.strip())
                if lines[-1] == at:
                    break
            for _ in range(signals):
                process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
            lines += [line.strip() for line in process.stdout]
            return process.wait(PATIENCE_S), lines

    return run


def test_the_work_is_interrupted_and_may_put_things_in_order(
    run_program: Callable[..., tuple[int, list[str]]],
) -> None:
    assert run_program() == (7, ["ready", "interrupted", "settled"])


def test_a_second_signal_does_not_interrupt_the_undoing(
    run_program: Callable[..., tuple[int, list[str]]],
) -> None:
    code, lines = run_program(undo="time.sleep(1); print('undone', flush=True)", signals=3)
    assert (code, lines[1:]) == (7, ["interrupted", "undone", "settled"])


def test_a_signal_after_the_outcome_changes_nothing(
    run_program: Callable[..., tuple[int, list[str]]],
) -> None:
    assert run_program("pass", at="settled", after_s=1) == (7, ["ready", "settled"])


def test_undoing_that_takes_too_long_ends_with_the_last_words(
    run_program: Callable[..., tuple[int, list[str]]],
) -> None:
    code, lines = run_program(undo=HANGS, grace_s=2)
    assert (code, lines) == (EXIT_CODE, ["ready", "interrupted", "last words"])


def test_work_that_cannot_be_interrupted_ends_with_the_last_words(
    run_program: Callable[..., tuple[int, list[str]]],
) -> None:
    busy = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'x', b'y', 500_000_000)"
    code, lines = run_program(busy, undo=HANGS, grace_s=1)
    assert code == EXIT_CODE
    assert lines[-1] == "last words"


def test_work_that_can_be_cancelled_is_not_interrupted(
    run_program: Callable[..., tuple[int, list[str]]],
) -> None:
    code, lines = run_program(
        "cancelled.wait(); print(stop.is_requested)", cancel="cancelled.set(); return True"
    )
    assert (code, lines) == (7, ["ready", "True", "settled"])


def test_work_that_starts_after_the_first_cancellation_is_met_by_the_next(
    run_program: Callable[..., tuple[int, list[str]]],
) -> None:
    twice = "cancelled.set(); return True"
    work = "cancelled.wait(); cancelled.clear(); cancelled.wait()"
    assert run_program(work, cancel=twice) == (7, ["ready", "settled"])
