"""Parts are read at once and given in order, a few items ahead."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest

from tideline.formats.read_ahead import in_order
from tideline.testing.patience import PATIENCE_S


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("parts", [0, 1, 3, 20])
def test_items_come_in_the_order_of_parts(threads: int, parts: int) -> None:
    def read(part: int) -> Iterator[tuple[int, int]]:
        for number in range(part % 7):
            time.sleep(0.0005 * ((part * 5) % 3))
            yield part, number

    expected = [(part, number) for part in range(parts) for number in range(part % 7)]
    assert list(in_order(range(parts), read, threads)) == expected


def test_parts_are_read_at_once() -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def read(part: int) -> Iterator[int]:
        both.wait()
        yield part

    assert list(in_order([0, 1], read, 2)) == [0, 1]


def test_nobody_reads_far_ahead() -> None:
    made = 0

    def read(_: int) -> Iterator[int]:
        nonlocal made
        for number in range(1000):
            made += 1
            yield number

    items = in_order([0], read, 1)
    next(items)
    time.sleep(0.3)
    assert made < 10
    items.close()
    time.sleep(0.3)
    assert made < 10


def test_an_error_comes_when_its_part_does() -> None:
    def read(part: int) -> Iterator[int]:
        if part == 1:
            raise ValueError("broken")
        yield part

    items = in_order([0, 1, 2], read, 3)
    assert next(items) == 0
    with pytest.raises(ValueError, match="broken"):
        next(items)


def test_a_process_ends_although_a_reader_is_left_half_read() -> None:
    code = """
    import itertools
    from tideline.formats.read_ahead import in_order
    items = in_order([0, 1], lambda _: itertools.count(), 2)
    print(next(items))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)
