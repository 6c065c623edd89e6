"""Work in threads that hold a bounded amount of memory together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")


def in_bounded_threads(
    items: Sequence[Item],
    do: Callable[[Item], Done],
    *,
    threads: int,
    held_bytes: Callable[[Item], int],
    held_bytes_max: int,
    stop: Callable[[], None],
) -> list[Done]:
    """What `do` gives for each item, in order.

    An item begins when what it is said to hold has room among those at work, or when there are
    none; with one thread they begin in order. Raises what one of them raised, once `stop` has told
    the others to end and they have.
    """
    if threads < 2 or len(items) < 2:
        return [do(item) for item in items]
    sizes = [held_bytes(item) for item in items]
    waiting, running = list(range(len(items))), dict[Future[Done], int]()
    found: dict[int, Done] = {}
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        try:
            while waiting or running:
                held = sum(sizes[number] for number in running.values())
                fitting = (n for n in waiting if not running or held + sizes[n] <= held_bytes_max)
                following = next(fitting, None) if len(running) < threads else None
                if following is not None:
                    waiting.remove(following)
                    running[pool.submit(do, items[following])] = following
                    continue
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    found[running.pop(future)] = future.result()
        except BaseException:
            stop()
            raise
    return [found[number] for number in range(len(items))]
