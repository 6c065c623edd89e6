"""Which tests `make test` leaves to `make slow`, by what they took when they were last measured.

Of each test function, all its parameters together:

1. One that is quick stays.
2. Of another the quickest parameter stays, unless it takes long, and so do parameters that take
   next to nothing.
3. A file keeps the quickest of its tests, unless that one takes very long, as the start of another
   engine does, and the files in `KEPT` keep all.

`measured_slow.txt` next to the engine's tests is written by `make seconds`. Tests that are marked
`slow` or `slow_with` are left to it by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

FUNCTION_SECONDS_MAX = 1.2
QUICKEST_SECONDS_MAX = 2.5
OTHER_SECONDS_MAX = 0.4
ONE_OF_A_FILE_SECONDS_MAX = 10.0
KEPT = frozenset(
    {"engine/tests/test_architecture.py", "operator/tests/controller/test_random_walks.py"}
)
_HEAD = """\
# What `make test` leaves to `make slow` because it took long: written by `make seconds`.
"""


def slow_tests(seconds: Mapping[str, float]) -> set[str]:
    """The node ids among `seconds` that are left to `make slow`."""
    files: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for node in sorted(seconds, key=lambda node: (seconds[node], node)):
        files[node.partition("::")[0]][node.partition("[")[0]].append(node)
    slow: set[str] = set()
    for file, functions in files.items():
        if file in KEPT:
            continue
        found = {node for nodes in functions.values() for node in _slow_of(nodes, seconds)}
        if len(found) == sum(map(len, functions.values())):
            # Functions and their tests come in the order of their seconds.
            quickest = next(iter(functions.values()))[0]
            if seconds[quickest] < ONE_OF_A_FILE_SECONDS_MAX:
                found.discard(quickest)
        slow |= found
    return slow


def rewrite(path: Path, seconds: Mapping[str, float]) -> None:
    """Write the file again; tests that were not measured stay what they are."""
    kept = {node for node in listed(path) if node not in seconds}
    lines = sorted(kept | slow_tests(seconds))
    path.write_text(_HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")


def listed(path: Path) -> frozenset[str]:
    """The node ids in a file of slow tests; lines that begin with # are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _slow_of(nodes: list[str], seconds: Mapping[str, float]) -> list[str]:
    """Those of a function's tests, the quickest first, that are left."""
    if sum(seconds[node] for node in nodes) < FUNCTION_SECONDS_MAX:
        return []
    quickest, *others = nodes
    left = [] if seconds[quickest] < QUICKEST_SECONDS_MAX else [quickest]
    return left + [node for node in others if seconds[node] >= OTHER_SECONDS_MAX]
