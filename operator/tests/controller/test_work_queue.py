"""The controller's queue: keys are processed once at a time, soon, and never in a hot loop."""

from __future__ import annotations

import threading
from itertools import pairwise

from tideline.clock import SystemClock
from tideline.testing.patience import PATIENCE_S
from tideline_operator.controller.work_queue import TURNS_MAX, TURNS_PER_S, WorkQueue

A, B = ("lake", "a"), ("lake", "b")


class ManualClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def taken(queue: WorkQueue) -> list[tuple[str, str]]:
    """The keys that are ready, each taken and done."""
    keys = []
    while (key := queue.get(0.0)) is not None:
        keys.append(key)
        queue.done(key)
    return keys


def test_a_key_is_in_the_queue_once_however_often_it_is_added() -> None:
    queue = WorkQueue(ManualClock())
    for _ in range(5):
        queue.add(A)
        queue.add(B)
    assert taken(queue) == [A, B]


def test_urgent_keys_go_first() -> None:
    queue = WorkQueue(ManualClock())
    queue.add(A)
    queue.add(B, urgent=True)
    assert taken(queue) == [B, A]
    queue.add(A)
    queue.add(B)
    queue.add(B, urgent=True)
    assert taken(queue) == [B, A]


def test_a_key_added_during_its_turn_gets_another_one_afterwards() -> None:
    queue = WorkQueue(ManualClock())
    queue.add(A)
    assert queue.get(0.0) == A
    queue.add(A)
    queue.add(A)
    assert queue.get(0.0) is None
    queue.done(A)
    assert taken(queue) == [A]


def test_a_key_wakes_at_its_newest_moment_only() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)
    queue.wake_at(A, clock.now_s + 10)
    queue.wake_at(A, clock.now_s + 20)
    clock.now_s += 15
    assert taken(queue) == []
    clock.now_s += 6
    assert taken(queue) == [A]
    clock.now_s += 60
    assert taken(queue) == []


def test_a_turn_taken_early_cancels_the_moment_it_was_to_wake() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)
    queue.wake_at(A, clock.now_s + 10)
    queue.add(A, urgent=True)
    assert taken(queue) == [A]
    clock.now_s += 11
    assert taken(queue) == []


def test_failures_are_retried_later_and_later_until_one_succeeds() -> None:
    queue = WorkQueue(ManualClock())
    delays = [queue.retry(A) for _ in range(12)]
    assert 0.3 < delays[0] < 0.7
    assert all(later > 1.2 * earlier for earlier, later in pairwise(delays[:6]))
    assert 40 < delays[-1] <= 72
    queue.succeeded(A)
    assert queue.retry(A) < 0.7
    assert queue.retry(A, at_least_s=30.0) == 30.0


def test_a_key_that_is_added_again_and_again_gets_few_turns_a_second() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)
    turns = 0
    for _ in range(600):
        queue.add(A, urgent=True)
        turns += len(taken(queue))
        clock.now_s += 0.1
    assert turns <= TURNS_MAX + 60 * TURNS_PER_S
    assert turns > 60


def test_a_waiting_worker_is_woken_by_what_is_added() -> None:
    queue = WorkQueue(SystemClock())
    got: list[object] = []
    worker = threading.Thread(target=lambda: got.append(queue.get(PATIENCE_S)))
    worker.start()
    queue.add(A)
    worker.join(PATIENCE_S)
    assert got == [A]


def test_a_closed_queue_gives_nothing_more() -> None:
    queue = WorkQueue(SystemClock())
    queue.add(A)
    queue.close()
    assert queue.get(PATIENCE_S) is None


def test_the_state_says_how_long_the_oldest_waits_and_works() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)
    queue.add(A)
    clock.now_s += 3
    queue.add(B, urgent=True)
    clock.now_s += 4
    assert queue.get(0.0) == B
    clock.now_s += 5
    state = queue.state
    assert (state.ready, state.processing) == (1, 1)
    assert (state.oldest_ready_s, state.oldest_processing_s) == (12.0, 5.0)
