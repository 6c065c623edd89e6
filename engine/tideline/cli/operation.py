"""`tideline execute --operation FILE`: one operation that a planner wrote down.

What a Kubernetes Job runs. Progress goes to stderr as plain lines; the result is one JSON line on
stdout, small enough for a pod's termination message.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tideline.cli.output import print_line
from tideline.ingest.execute import execute_operation, read_operation
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_operation(path: str) -> int:
    """Carry out the operation in the file; returns the exit code of its result."""
    operation = read_operation(Path(path))

    def open_session(locations: Iterable[StoreLocation]) -> SparkSession:
        # Operations that move no rows run where Spark is not installed.
        from tideline.spark.session import get_session

        return get_session(f"tideline {operation.id}", locations=locations)

    result = execute_operation(operation, session_factory=open_session, progress=_print_progress)
    print_line(result.to_json())
    return result.exit_code


def _print_progress(text: str) -> None:
    print(f"tideline: {text}", file=sys.stderr, flush=True)
