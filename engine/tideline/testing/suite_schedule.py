"""pytest plugin: which test file runs when, and which part of the suite a slice is.

1. `file_seconds.json` beside the engine's tests says how many seconds of processor time each test
   file took when it was last measured (`python -m tideline.testing.file_seconds`).
2. Files that need a Spark session come first, the longest of them first; all others follow, the
   longest last. The first worker of a parallel run takes files from the front, the second from the
   back, so they meet among short ones and end together, and as a rule one of them starts Spark.
3. `--slice K/N` keeps the files of one of N parts of about equal length. A file belongs to the same
   part on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

FILE_SECONDS = Path(__file__).resolve().parents[2] / "tests" / "file_seconds.json"
SECONDS_UNLESS_MEASURED = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slice`."""
    parser.addoption(
        "--slice", metavar="K/N", help="run only the K-th of N parts of the test files selected"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what belongs to another slice; in a parallel run put files in their order."""
    chosen = config.getoption("--slice")
    if chosen:
        _keep_slice(config, items, *_parsed(chosen))
    if config.getoption("dist", "no") == "loadfile" or hasattr(config, "workerinput"):
        items[:] = in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Take files from both ends where whole files are dealt to workers."""
    return TwoEnded(config, log) if config.getoption("dist") == "loadfile" else None


class TwoEnded(LoadFileScheduling):  # type: ignore[misc]
    """Deals whole files: from the front of the order to the first worker, else from its end."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self.config.option.loadscopereorder = False

    def _assign_work_unit(self, node: WorkerController) -> None:
        from_the_end = self.nodes.index(node) % 2 == 1
        if from_the_end:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Tests file by file: those with Spark, longest first, then the others, longest last."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(_file_of(item), []).append(item)

    def place(file: str) -> tuple[bool, float, str]:
        with_spark = any(item.get_closest_marker("spark") for item in files[file])
        seconds = seconds_of(file)
        return (not with_spark, -seconds if with_spark else seconds, file)

    return [item for file in sorted(files, key=place) for item in files[file]]


def slices(files: Iterable[str], count: int, seconds: Mapping[str, float]) -> list[list[str]]:
    """`count` parts of about equal length: each file, longest first, goes to the shortest part."""
    parts: list[list[str]] = [[] for _ in range(count)]
    lengths_s = [0.0] * count
    for file in sorted(files, key=lambda name: (-seconds[name], name)):
        shortest = lengths_s.index(min(lengths_s))
        parts[shortest].append(file)
        lengths_s[shortest] += seconds[file]
    return parts


def seconds_of(file: str) -> float:
    """Seconds of processor time of a test file, by its path in the repository."""
    return _measured().get(file, SECONDS_UNLESS_MEASURED)


@cache
def _measured() -> dict[str, float]:
    measured: dict[str, float] = json.loads(FILE_SECONDS.read_text(encoding="utf-8"))
    return measured


def _keep_slice(config: pytest.Config, items: list[pytest.Item], number: int, count: int) -> None:
    files = {_file_of(item) for item in items}
    wanted = set(slices(files, count, {file: seconds_of(file) for file in files})[number - 1])
    dropped = [item for item in items if _file_of(item) not in wanted]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if _file_of(item) in wanted]


def _parsed(chosen: str) -> tuple[int, int]:
    number, _, count = chosen.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--slice is K/N, as 2/4, not {chosen}")
    return int(number), int(count)


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
