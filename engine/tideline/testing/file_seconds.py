"""Rewrite `file_seconds.json` and the lists of measured tests from the reports of test runs.

    make seconds                                              run all but the storms, then this
    python -m tideline.testing.file_seconds QUICK SLOW UNIT   this alone

A report is what `pytest --junit-xml=REPORT.xml -o junit_family=xunit1` writes: QUICK of what `make
test` and `make rest` run, SLOW of the others, UNIT of those of QUICK that need nothing but Python.
Files are scheduled by their seconds. Slow tests are chosen among those of QUICK and those that were
chosen before, then those of `make rest` among what is left, then those that `make unit` leaves to
`make test`; what is marked `slow` beside a test stays so.
Files that no report names keep their seconds as long as they exist.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from tideline.testing.measured_tests import (
    LEFT_TO_REST,
    LEFT_TO_SLOW,
    LEFT_TO_TEST,
    left_out,
    listed,
    rewrite,
)
from tideline.testing.suite_schedule import (
    FILE_SECONDS,
    MEASURED_LONGER,
    MEASURED_REST,
    MEASURED_SLOW,
)

ROOT = FILE_SECONDS.parents[2]


def seconds_in(report: Path) -> dict[str, float]:
    """Seconds of each test, by its node id."""
    return {
        _node_id(case): float(case.get("time", 0))
        for case in ElementTree.parse(report).getroot().iter("testcase")
        if case.get("file") is not None
    }


def seconds_of_files(tests: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each test file, all its tests together."""
    found: defaultdict[str, float] = defaultdict(float)
    for node, seconds in tests.items():
        found[node.partition("::")[0]] += seconds
    return {file: round(seconds, 1) for file, seconds in found.items()}


def _node_id(case: ElementTree.Element) -> str:
    """By the module and the class that ran it: a contract's tests are written in another file."""
    names = case.get("classname", "").split(".")
    modules = ("/".join(names[:count]) + ".py" for count in range(len(names), 0, -1))
    module = next((name for name in modules if _exists(name)), str(case.get("file")))
    classes = names[module.count("/") + 1 :]
    return "::".join([module, *classes, case.get("name", "")])


def _exists(file: str) -> bool:
    # End-to-end tests have a root folder of their own.
    return (ROOT / file).exists() or (ROOT / "e2e" / file).exists()


def main() -> int:
    """Merge the reports named as arguments into the files."""
    quick, slow, unit = (seconds_in(Path(name)) for name in sys.argv[1:])
    tests = {**quick, **slow}
    before = listed(MEASURED_SLOW)
    choice = {node: tests[node] for node in tests if node in quick or node in before}
    slow_nodes = left_out(choice, LEFT_TO_SLOW)
    rewrite(MEASURED_SLOW, "slow", set(choice), slow_nodes)
    choice = {node: seconds for node, seconds in choice.items() if node not in slow_nodes}
    rest = left_out(choice, LEFT_TO_REST)
    rewrite(MEASURED_REST, "rest", set(choice) | slow_nodes, rest)
    unit = {node: seconds for node, seconds in unit.items() if node in choice and node not in rest}
    longer = left_out(unit, LEFT_TO_TEST)
    rewrite(MEASURED_LONGER, "test", set(quick) | slow_nodes, longer)
    known: dict[str, float] = json.loads(FILE_SECONDS.read_text(encoding="utf-8"))
    kept = {file: seconds for file, seconds in known.items() if _exists(file)}
    merged = {**kept, **seconds_of_files(tests)}
    text = json.dumps(dict(sorted(merged.items())), indent=0) + "\n"
    FILE_SECONDS.write_text(text, encoding="utf-8")
    rest_s = sum(choice[node] for node in rest)
    test_s = sum(choice.values()) - rest_s
    print(f"{sum(merged.values()):.0f} s: `make test` {test_s:.0f} s, `make rest` {rest_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
