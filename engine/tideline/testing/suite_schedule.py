"""pytest plugin: which worker runs which test file when, and which part of the suite a slice is.

1. `file_seconds.json` next to the engine's tests says how many seconds each test file took when it
   was last measured (`make seconds`).
2. A worker of a parallel run stays with files of one kind as long as there are any, the longest
   first: as a rule one worker starts Spark and another Kubernetes. Then it takes from the kind
   that has most left, so that all end together.
3. Tests with parameters that they are marked `slow_with`, and those that `measured_slow.txt` names,
   are marked `slow`, those that `measured_rest.txt` names `rest`, and those that
   `measured_longer.txt` names `longer`; `make seconds` writes all three.
4. `--slice K/N` keeps the files of one of N parts of about equal length. A file belongs to the same
   part on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tideline.testing.measured_tests import listed

FILE_SECONDS = Path(__file__).resolve().parents[2] / "tests" / "file_seconds.json"
MEASURED_SLOW = FILE_SECONDS.with_name("measured_slow.txt")
MEASURED_REST = FILE_SECONDS.with_name("measured_rest.txt")
MEASURED_LONGER = FILE_SECONDS.with_name("measured_longer.txt")
SECONDS_UNLESS_MEASURED = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slice`."""
    parser.addoption(
        "--slice", metavar="K/N", help="run only the K-th of N parts of the test files selected"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make test` and `make unit` leave to other targets."""
    function, _, parameters = item.nodeid.partition("[")
    marked = {name for mark in item.iter_markers("slow_with") for name in mark.args}
    if parameters.removesuffix("]") in marked or {item.nodeid, function} & measured(MEASURED_SLOW):
        item.add_marker(pytest.mark.slow)
    elif item.nodeid in measured(MEASURED_REST):
        item.add_marker(pytest.mark.rest)
    elif item.nodeid in measured(MEASURED_LONGER):
        item.add_marker(pytest.mark.longer)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what belongs to another slice."""
    chosen = config.getoption("--slice")
    if chosen:
        _keep_slice(config, items, *parsed_slice(chosen))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Where whole files are dealt to workers, deal them by kind."""
    return ByKind(config, log) if config.getoption("dist") == "loadfile" else None


class Kind(Enum):
    """What a test file starts that takes long to start; the value is how its source shows it."""

    SPARK = "mark.spark"
    KUBERNETES = "mark.api_server"
    OTHER = ""

    @classmethod
    def of(cls, file: Path) -> Kind:
        source = file.read_text(encoding="utf-8") if file.is_file() else ""
        return next(kind for kind in cls if kind.value in source)


class ByKind(LoadFileScheduling):  # type: ignore[misc]
    """Deals whole files to workers, each worker those of one kind while there are any."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._kinds: dict[WorkerController, Kind] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        left: dict[Kind, list[str]] = {}
        for file in self.workqueue:
            left.setdefault(self._kind_of(file), []).append(file)
        kind = self._kinds.get(node)
        if kind not in left:
            kind = choose_kind(
                {kind: sum(map(seconds_of, files)) for kind, files in left.items()},
                taken=set(self._kinds.values()),
            )
            self._kinds[node] = kind
        self.workqueue.move_to_end(max(left[kind], key=seconds_of), last=False)
        super()._assign_work_unit(node)

    def _kind_of(self, file: str) -> Kind:
        return _kind_of(self.config.rootpath / file)


def choose_kind(seconds_left: Mapping[Kind, float], taken: Collection[Kind]) -> Kind:
    """What a worker turns to that has nothing: a kind that no other has, else the longest."""
    free = [kind for kind in seconds_left if kind not in taken]
    return max(free or list(seconds_left), key=lambda kind: seconds_left[kind])


def slices(files: Iterable[str], count: int, seconds: Mapping[str, float]) -> list[list[str]]:
    """`count` parts of about equal length: each file, longest first, goes to the shortest part."""
    parts: list[list[str]] = [[] for _ in range(count)]
    lengths_s = [0.0] * count
    for file in sorted(files, key=lambda name: (-seconds[name], name)):
        shortest = lengths_s.index(min(lengths_s))
        parts[shortest].append(file)
        lengths_s[shortest] += seconds[file]
    return parts


def parsed_slice(chosen: str) -> tuple[int, int]:
    """The number, from 1, and the count of `K/N`. Raises pytest.UsageError for anything else."""
    number, _, count = chosen.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--slice is K/N, as 2/4, not {chosen}")
    return int(number), int(count)


@cache
def measured(path: Path) -> frozenset[str]:
    """Node ids of tests that were measured to be long, without parameters where all of them are."""
    return listed(path)


def seconds_of(file: str) -> float:
    """Seconds of processor time of a test file, by its path in the repository."""
    return _seconds_of_files().get(file, SECONDS_UNLESS_MEASURED)


@cache
def _kind_of(file: Path) -> Kind:
    return Kind.of(file)


@cache
def _seconds_of_files() -> dict[str, float]:
    found: dict[str, float] = json.loads(FILE_SECONDS.read_text(encoding="utf-8"))
    return found


def _keep_slice(config: pytest.Config, items: list[pytest.Item], number: int, count: int) -> None:
    files = {_file_of(item) for item in items}
    wanted = set(slices(files, count, {file: seconds_of(file) for file in files})[number - 1])
    dropped = [item for item in items if _file_of(item) not in wanted]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if _file_of(item) in wanted]


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
