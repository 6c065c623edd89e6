"""Errors that Tideline raises inside Spark tasks, brought back to the driver as what they are.

Spark hands the driver a text with the traceback of the worker. The worker puts the error into it
as one line of JSON, and the driver finds it there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tideline import errors
from tideline.errors import TidelineError

_MARK = "tideline-task-error:"
_CARRIED = re.compile(f"{_MARK}(.*)$", re.MULTILINE)
_DETAILS = ("table", "instant", "path", "value")


@contextmanager
def carried_errors() -> Iterator[None]:
    """In a task: make an error readable for `raised_errors`."""
    try:
        yield
    except TidelineError as error:
        content: dict[str, str | None] = {"kind": type(error).__name__, "message": error.message}
        for name in _DETAILS:
            detail = getattr(error, name)
            content[name] = None if detail is None else str(detail)
        raise RuntimeError(f"{_MARK}{json.dumps(content)}") from error


@contextmanager
def raised_errors() -> Iterator[None]:
    """On the driver: raise what a task raised. Other failures of a job stay as Spark has them."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        error = _found_in(str(failure))
        if error is None:
            raise
        raise error from failure


def _found_in(text: str) -> TidelineError | None:
    found = _CARRIED.search(text)
    if found is None:
        return None
    content: dict[str, str] = json.loads(found[1])
    kind: type[TidelineError] = getattr(errors, content.pop("kind"))
    return kind(content.pop("message"), **content)
