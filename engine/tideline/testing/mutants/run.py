"""Planting faults in copies of the project and looking whether a test notices.

1. Copy the packages and their tests to a scratch folder for each worker; the checkout is never
   touched.
2. Run all selected tests as they are: they must pass.
3. For each fault: plant it, run its tests against the copy, restore the file. A fault is caught
   when a test fails. It survives when they pass, and counts as unproven when they hang, cannot be
   collected, or the text to replace is not where it was.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tideline.testing.mutants.fault import Fault, write_source
from tideline.testing.suite_schedule import seconds_of, slices

_COPIED = (
    "engine/tideline",
    "engine/tests",
    "operator",
    "charts",
    "examples",
    "tools",
    "conftest.py",
    "pyproject.toml",
)
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
_TIMEOUT_S = 300.0
_FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_PASSED, _FAILED = 0, 1


class Outcome(Enum):
    """What became of a fault."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    UNPROVEN = "UNPROVEN"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault, its outcome, and the test that caught it (or why it is unproven)."""

    fault: Fault
    outcome: Outcome
    by: str
    seconds: float

    def line(self) -> str:
        fault = self.fault
        return f"{self.outcome!s:8}  {self.seconds:5.1f} s  {fault.name}  [{fault.path}]  {self.by}"


def try_faults(
    faults: Sequence[Fault],
    project: Path,
    *,
    workers: int = 2,
    report: Callable[[Trial], None] = lambda _: None,
) -> tuple[Trial, ...]:
    """The outcome of each fault, reported as it is known.

    Raises RuntimeError when a test fails although no fault is planted.
    """
    with _copies(project, workers) as copies:
        free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def attempt(fault: Fault) -> Trial:
            copy = free.get()
            try:
                return try_fault(fault, copy)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(workers) as pool:
            sound = [
                pool.submit(_pass_as_they_are, tests, free)
                for tests in _selections(faults, workers)
            ]
            for run in sound:
                run.result()
            verdicts = []
            for done in as_completed([pool.submit(attempt, fault) for fault in faults]):
                verdicts.append(done.result())
                report(verdicts[-1])
    return tuple(sorted(verdicts, key=lambda verdict: faults.index(verdict.fault)))


def try_fault(fault: Fault, copy: Path) -> Trial:
    """Plant a fault in a copy of the project, run its tests, and take it out again."""
    started_s = time.monotonic()

    def verdict(outcome: Outcome, by: str) -> Trial:
        return Trial(fault, outcome, by, time.monotonic() - started_s)

    try:
        before = fault.plant(copy)
    except ValueError as error:
        return verdict(Outcome.UNPROVEN, str(error))
    try:
        code, output = _run_tests(copy, fault.tests)
    except subprocess.TimeoutExpired:
        return verdict(Outcome.UNPROVEN, f"its tests ran for more than {_TIMEOUT_S:.0f} s")
    finally:
        for path, text in before.items():
            write_source(copy / path, text)
    if code == _PASSED:
        return verdict(Outcome.SURVIVED, f"these pass: {' '.join(fault.tests)}")
    failed = _FIRST_FAILURE.search(output)
    if code != _FAILED or failed is None or failed[0].startswith("ERROR"):
        last = output.strip().splitlines()[-1:] or ["no output"]
        return verdict(Outcome.UNPROVEN, f"no test failed, pytest ended with {code}: {last[0]}")
    return verdict(Outcome.CAUGHT, failed[1])


def _pass_as_they_are(tests: Sequence[str], free: queue.SimpleQueue[Path]) -> None:
    copy = free.get()
    try:
        code, output = _run_tests(copy, tests, timeout_s=10 * _TIMEOUT_S)
    finally:
        free.put(copy)
    if code != _PASSED:
        raise RuntimeError(f"fails without a fault: {' '.join(tests)}\n{output[-3000:]}")


def _run_tests(
    copy: Path, tests: Sequence[str], *, timeout_s: float = _TIMEOUT_S
) -> tuple[int, str]:
    """pytest's exit code and output over the copy, which comes first on the module path."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(copy / "engine"), str(copy / "operator"))),
    }
    options = ("-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=copy,
        env=environment,
        timeout=timeout_s,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@contextmanager
def _copies(project: Path, count: int) -> Iterator[tuple[Path, ...]]:
    with tempfile.TemporaryDirectory(prefix="tideline-mutants-") as folder:
        copies = tuple(Path(folder) / str(number) for number in range(count))
        for copy in copies:
            for name in _COPIED:
                source, target = project / name, copy / name
                if source.is_dir():
                    shutil.copytree(source, target, ignore=_IGNORED)
                elif source.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
        yield copies


def _selections(faults: Sequence[Fault], workers: int) -> list[tuple[str, ...]]:
    """What all faults select: a run of whole files for each worker, one for each selection with
    options."""
    files: set[str] = set()
    with_options: set[tuple[str, ...]] = set()
    for fault in faults:
        if any(word.startswith("-") for word in fault.tests):
            with_options.add(fault.tests)
        else:
            files.update(fault.tests)
    seconds = {name: seconds_of(name.partition("::")[0]) for name in files}
    runs = slices(files, workers, seconds)
    return [*(tuple(run) for run in runs if run), *sorted(with_options)]
