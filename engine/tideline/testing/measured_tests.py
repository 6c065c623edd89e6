"""Which tests `make test` leaves to `make rest` and `make slow`, and `make unit` to `make test`, by
what they took when measured.

Of each test function, all its parameters together:

1. One that is quick stays.
2. Of another the quickest parameter stays, unless it takes long, and so do parameters that take
   next to nothing.
3. A file keeps the quickest of its tests, unless that one takes very long, as the start of another
   engine does, and the files in `kept` keep all.

`measured_longer.txt`, `measured_rest.txt` and `measured_slow.txt` next to the engine's tests are
written by `make seconds`. CI runs the rest for each commit, of the slow ones a slice. Tests that
are marked `slow` or `slow_with` are left by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What stays: functions, their quickest parameter and the others, and one test of a file."""

    function_seconds_max: float
    quickest_seconds_max: float
    other_seconds_max: float
    one_of_a_file_seconds_max: float
    kept: frozenset[str] = frozenset()


LEFT_TO_TEST = Limits(0.03, 0.03, 0.01, 0.06)
LEFT_TO_REST = Limits(0.5, 0.6, 0.2, 3.0)
LEFT_TO_SLOW = Limits(
    1.2,
    2.5,
    0.4,
    10.0,
    frozenset(
        {
            "engine/tests/settings/test_settings_are_read.py",
            "engine/tests/test_architecture.py",
            "operator/tests/controller/test_random_walks.py",
        }
    ),
)


def left_out(seconds: Mapping[str, float], limits: Limits) -> set[str]:
    """The node ids among `seconds` that take longer."""
    files: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for node in sorted(seconds, key=lambda node: (seconds[node], node)):
        files[node.partition("::")[0]][node.partition("[")[0]].append(node)
    left: set[str] = set()
    for file, functions in files.items():
        if file in limits.kept:
            continue
        found = {node for nodes in functions.values() for node in _of(nodes, seconds, limits)}
        if len(found) == sum(map(len, functions.values())):
            # Functions and their tests come in the order of their seconds.
            quickest = next(iter(functions.values()))[0]
            if seconds[quickest] < limits.one_of_a_file_seconds_max:
                found.discard(quickest)
        left |= found
    return left


def rewrite(path: Path, target: str, measured: set[str], left: set[str]) -> None:
    """Write the file of a `make` target again; tests that were not measured stay what they are."""
    lines = sorted((listed(path) - measured) | left)
    head = f"# Tests that are left to `make {target}`, by what they took (`make seconds`).\n"
    path.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")


def listed(path: Path) -> frozenset[str]:
    """The node ids in a file of such tests; lines that begin with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _of(nodes: list[str], seconds: Mapping[str, float], limits: Limits) -> list[str]:
    """Those of a function's tests, the quickest first, that are left."""
    if sum(seconds[node] for node in nodes) < limits.function_seconds_max:
        return []
    quickest, *others = nodes
    left = [] if seconds[quickest] < limits.quickest_seconds_max else [quickest]
    return left + [node for node in others if seconds[node] >= limits.other_seconds_max]
