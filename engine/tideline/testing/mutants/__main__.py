"""`python -m tideline.testing.mutants [WORDS]`: plant every fault whose name or file has a word.

`--slice K/N` in place of words: plant one of N parts of all of them.

One line for each: its outcome, seconds, the fault, the place, the test that caught it. Exit code 1
unless all were caught.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import tideline
from tideline.testing.mutants.fault import Fault
from tideline.testing.mutants.run import Outcome, Trial, try_faults
from tideline.testing.mutants.table import FAULTS, part_of_faults
from tideline.testing.suite_schedule import parsed_slice


def main(words: list[str]) -> int:
    project = Path(tideline.__file__).resolve().parents[2]
    chosen = _chosen(words)
    if not chosen:
        print(f"no fault of {len(FAULTS)} has any of: {' '.join(words)}", file=sys.stderr)
        return 2
    started_s = time.monotonic()
    workers = int(os.environ.get("WORKERS", "2"))
    verdicts = try_faults(chosen, project, workers=workers, report=_show)
    counts = Counter(verdict.outcome for verdict in verdicts)
    print(
        f"{len(verdicts)} faults planted: "
        + ", ".join(f"{counts[outcome]} {str(outcome).lower()}" for outcome in Outcome)
        + f", in {time.monotonic() - started_s:.0f} s"
    )
    return 0 if counts[Outcome.CAUGHT] == len(verdicts) else 1


def _chosen(words: list[str]) -> Sequence[Fault]:
    match words:
        case []:
            return FAULTS
        case ["--slice", part]:
            return part_of_faults(*parsed_slice(part))
    return [
        fault for fault in FAULTS if any(word in fault.name or word in fault.path for word in words)
    ]


def _show(verdict: Trial) -> None:
    print(verdict.line(), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
