"""Progress of long work, on standard error: what it is about, since when, how far Spark is.

On a terminal one line that changes and goes away at the end; elsewhere a plain line now and then,
the first one after a while, so that short work says nothing. What a command prints ends it.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FIRST_LOOK_S = 0.5
_LOOK_S = 1.0
_FIRST_LINE_S = 10.0
_LINES_S = 30.0
_CLEAR = "\r\x1b[2K"


class _Display:
    """One thread that says what is being done until it is asked to end."""

    def __init__(self, doing: str, first_line_s: float, lines_s: float) -> None:
        self._doing = doing
        self._began_s = time.monotonic()
        self._is_over = threading.Event()
        on_terminal = sys.stderr.isatty()
        waits_s = (_FIRST_LOOK_S, _LOOK_S) if on_terminal else (first_line_s, lines_s)
        self._thread = threading.Thread(
            target=self._show, args=(on_terminal, *waits_s), name="progress", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _show(self, on_terminal: bool, first_s: float, others_s: float) -> None:
        has_shown, wait_s = False, first_s
        while not self._is_over.wait(wait_s):
            text, has_shown, wait_s = self._text(), True, others_s
            if on_terminal:
                # Cut, because a line that continues in the next is not taken back.
                _say(f"{_CLEAR}{text[: shutil.get_terminal_size().columns - 1]}")
            else:
                _say(f"tideline: {text}\n")
        if has_shown and on_terminal:
            _say(_CLEAR)

    def _text(self) -> str:
        parts = (self._doing, f"{time.monotonic() - self._began_s:.0f} s", _tasks())
        return ", ".join(part for part in parts if part)


_shown: list[_Display] = []


@contextmanager
def progress(
    doing: str, *, first_line_s: float = _FIRST_LINE_S, lines_s: float = _LINES_S
) -> Iterator[None]:
    """Within, say that this is `doing` something, such as "reading the table".

    The seconds are for lines that are no terminal's: to the first one, and between them.
    """
    end_progress()
    _shown.append(_Display(doing, first_line_s, lines_s))
    try:
        yield
    finally:
        end_progress()


def end_progress() -> None:
    """Take the line back, where one is shown: something else is to be printed."""
    # Operations report from several threads.
    with suppress(IndexError):
        while True:
            _shown.pop().end()


def _say(text: str) -> None:
    # The reader of a pipe may be gone; the work continues.
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _tasks() -> str | None:
    """What Spark is at, where this process has loaded it at all."""
    if "pyspark" not in sys.modules:
        return None
    from tideline.spark.session.job_progress import running_tasks

    return running_tasks()
