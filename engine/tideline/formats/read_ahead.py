"""Reading several parts at once and giving what they hold part after part.

Threads read the next parts while the first one is given. Each holds back when it is a few items
ahead, so that memory depends on their number and not on that of the parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event, Thread, current_thread, main_thread
from typing import Generic, TypeVar

from tideline.machine import processors

Part = TypeVar("Part")
Item = TypeVar("Item")

THREADS_MAX = 8
THREAD_NAME = "read ahead"
_ITEMS_AHEAD = 4
_STOP_NOTICED_S = 0.1


def in_order(
    parts: Iterable[Part],
    read: Callable[[Part], Iterator[Item]],
    threads: int,
    *,
    first_alone: bool = False,
) -> Generator[Item]:
    """The items of all parts in order; `read` runs in threads, which end when this is closed.
    Parts are asked for as their turn to be read comes; others than the first, if that is read
    alone, once its first item was taken and more are wanted.
    Raises what `read` raises, when its part's turn comes."""
    stop = Event()
    waiting = iter(parts)
    running: deque[_Lane[Part, Item]] = deque()

    def start(most: int) -> None:
        while len(running) < most:
            for part in waiting:
                running.append(_Lane(read, part, stop))
                break
            else:
                return

    try:
        start(1 if first_alone else threads)
        while running:
            for item in running[0].items():
                yield item
                start(threads)
            running.popleft()
            start(threads)
    finally:
        stop.set()
        for lane in running:
            lane.join()


def reading_threads(threads_max: int = THREADS_MAX) -> int:
    """How many parts to read at once: twice the processors, because a store is waited for."""
    return min(threads_max, 2 * processors())


@dataclass(frozen=True, slots=True)
class _End:
    """After the last item; `error` is what ended it."""

    error: BaseException | None = None


class _Lane(Generic[Part, Item]):
    """A thread that reads a part, no faster than it is taken.

    It ends with the process as well, which waits for it: a reader may be left half read.
    """

    def __init__(self, read: Callable[[Part], Iterator[Item]], part: Part, stop: Event) -> None:
        self._stop = stop
        self._taker = current_thread()
        self._queue: Queue[Item | _End] = Queue(_ITEMS_AHEAD)
        self._thread = Thread(target=self._fill, args=(read, part), name=THREAD_NAME)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def _fill(self, read: Callable[[Part], Iterator[Item]], part: Part) -> None:
        end = _End()
        try:
            for item in read(part):
                if not self._put(item):
                    return
        except BaseException as error:
            end = _End(error)
        self._put(end)

    def items(self) -> Iterator[Item]:
        """What the part holds. Raises what reading it raised."""
        while True:
            item = self._next()
            if not isinstance(item, _End):
                yield item
            elif item.error is not None:
                raise item.error
            else:
                return

    def _next(self) -> Item | _End:
        while True:
            is_over = not self._thread.is_alive()
            try:
                return self._queue.get(timeout=_STOP_NOTICED_S)
            except Empty:
                if is_over:
                    return _End(RuntimeError("the process ends: no more rows are read"))

    def _is_over(self) -> bool:
        """Whether nobody takes any more, for the process ends: it waits for this thread."""
        taken = self._taker.is_alive() and not self._taker.daemon
        return self._stop.is_set() or not (taken or main_thread().is_alive())

    def _put(self, item: Item | _End) -> bool:
        """False when nobody takes any more."""
        while not self._is_over():
            try:
                self._queue.put(item, timeout=_STOP_NOTICED_S)
                return True
            except Full:
                continue
        return False
