"""Rewrite `file_seconds.json` from the reports of test runs: what files are scheduled by.

    make seconds                                              run all but the storms, then this
    python -m tideline.testing.file_seconds REPORT.xml ...    this alone

A report is what `pytest --junit-xml=REPORT.xml -o junit_family=xunit1` writes. Files that no report
names keep their seconds as long as they exist.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from tideline.testing.suite_schedule import FILE_SECONDS

ROOT = FILE_SECONDS.parents[2]


def seconds_in(reports: Sequence[Path]) -> dict[str, float]:
    """Seconds of each test file, all its tests together."""
    found: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            file = case.get("file")
            if file is not None:
                found[file] += float(case.get("time", 0))
    return {file: round(seconds, 1) for file, seconds in found.items()}


def _exists(file: str) -> bool:
    # End-to-end tests have a root folder of their own.
    return (ROOT / file).exists() or (ROOT / "e2e" / file).exists()


def main() -> int:
    """Merge the reports named as arguments into the file."""
    known: dict[str, float] = json.loads(FILE_SECONDS.read_text(encoding="utf-8"))
    kept = {file: seconds for file, seconds in known.items() if _exists(file)}
    merged = {**kept, **seconds_in([Path(name) for name in sys.argv[1:]])}
    text = json.dumps(dict(sorted(merged.items())), indent=0) + "\n"
    FILE_SECONDS.write_text(text, encoding="utf-8")
    print(f"{len(merged)} files, {sum(merged.values()):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
