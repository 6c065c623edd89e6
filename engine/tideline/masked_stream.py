"""Standard error of a process with the secrets of its environment masked.

Everything that a Python process prints there goes through one object: messages, logs, tracebacks of
errors that nobody caught, in every thread. What Java prints does not: Spark redacts its own
settings (`spark.redaction.regex`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from tideline.secret_values import masked, note_environment


class MaskedStream:
    """A stream for text that masks what is written to it, a call at a time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(masked(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def masked_standard_error() -> Iterator[None]:
    """Within, standard error is masked, as `mask_standard_error` does it."""
    before = sys.stderr
    mask_standard_error()
    try:
        yield
    finally:
        sys.stderr = before


def mask_standard_error() -> None:
    """Mask standard error until the process ends, and note the secrets of the environment."""
    note_environment(os.environ)
    if not isinstance(sys.stderr, MaskedStream):
        sys.stderr = cast("TextIO", MaskedStream(sys.stderr))
