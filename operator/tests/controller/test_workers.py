"""Turns that wait take the place of no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tideline.clock import SystemClock
from tideline.testing.patience import PATIENCE_S
from tideline_operator.controller.work_queue import Key, WorkQueue
from tideline_operator.controller.workers import Workers
from tideline_operator.testing.eventually import eventually

WAITING = tuple(("lake", f"w{number}") for number in range(40))
QUICK = ("lake", "quick")


class Case:
    """Tables whose turns wait until `release` is set, and others."""

    def __init__(self) -> None:
        self.queue = WorkQueue(SystemClock())
        self.release = threading.Event()
        self.seen: list[Key] = []
        self.raised: dict[Key, BaseException] = {}
        self.workers = Workers(self.queue, self._take_turn, SystemClock(), workers=4)

    def _take_turn(self, key: Key) -> None:
        if key in WAITING:
            self.release.wait(PATIENCE_S)
        self.seen.append(key)
        if key in self.raised:
            raise self.raised[key]


@pytest.fixture
def case() -> Iterator[Case]:
    case = Case()
    yield case
    case.release.set()
    case.queue.close()
    case.workers.stop(10.0)


def test_a_turn_comes_soon_although_forty_wait_before_it(case: Case) -> None:
    case.workers.start()
    for key in (*WAITING, QUICK):
        case.queue.add(key)
    eventually(lambda: QUICK in case.seen, "the turn of the quick one")
    assert case.seen == [QUICK]


def test_there_are_never_more_threads_than_the_limit(case: Case) -> None:
    case.workers = Workers(
        case.queue, case._take_turn, SystemClock(), workers=4, threads_max=10
    )  # fmt: skip
    case.workers.start()
    for key in WAITING:
        case.queue.add(key)
    eventually(lambda: case.workers.threads == 10, "they are all there")
    time.sleep(1.5)
    assert case.workers.threads == 10


def test_threads_that_are_not_needed_any_more_end(case: Case) -> None:
    case.workers.start()
    for key in WAITING:
        case.queue.add(key)
    eventually(lambda: case.workers.threads >= len(WAITING), "there are as many")
    case.release.set()
    eventually(lambda: case.workers.threads == 4, "they are four again")
    assert sorted(case.seen) == sorted(WAITING)


def test_short_turns_need_no_more_threads(case: Case) -> None:
    case.workers.start()
    for number in range(2_000):
        case.queue.add(("lake", f"t{number}"))
    eventually(lambda: len(case.seen) == 2_000, "all had their turn")
    assert case.workers.threads == 4


@pytest.mark.parametrize(
    "error",
    [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), MemoryError(), RecursionError()],
    ids=lambda error: type(error).__name__,
)
def test_nothing_that_a_turn_raises_ends_its_thread(case: Case, error: BaseException) -> None:
    keys = [("lake", f"t{number}") for number in range(20)]
    case.raised = dict.fromkeys(keys, error)
    case.workers.start()
    alive = set(case.workers._alive())
    for key in (*keys, QUICK):
        case.queue.add(key)
    eventually(lambda: len(case.seen) == 21, "all had their turn")
    assert set(case.workers._alive()) == alive
