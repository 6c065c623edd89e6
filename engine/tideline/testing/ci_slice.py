"""The slice of the long tests that a CI run adds to `make test`: another one for each commit.

    python -m tideline.testing.ci_slice            run the slice of HEAD
    python -m tideline.testing.ci_slice --list     print all slices
    python -m tideline.testing.ci_slice --take 3   run one by its number

All slices together are what `make verify` runs beyond `make test` and the end-to-end tests that CI
always runs. Which one a commit gets is its hash modulo their number: the same on every machine, and
in the long run each as often as the others. A slice that outlives its time limit has failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

SECONDS_MAX = 1500.0
_SECONDS_TO_REPORT = 60.0
"""pytest lists what failed so far when it is interrupted."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the long tests: a `make` target, the tests it is narrowed to, other variables."""

    target: str
    tests: str = ""
    variables: tuple[str, ...] = ()

    def __str__(self) -> str:
        tests = (f'TESTS="{self.tests}"',) if self.tests else ()
        return " ".join(("make", self.target, *tests, *self.variables))

    def command(self) -> list[str]:
        """What runs it."""
        tests = [f"TESTS={self.tests}"] if self.tests else []
        return ["make", self.target, *tests, *self.variables]


def _parts(target: str, count: int, *variables: str) -> tuple[Slice, ...]:
    numbers = range(1, count + 1)
    return tuple(Slice(target, f"--slice {number}/{count}", variables) for number in numbers)


SLICES = (
    *_parts("slow", 14),
    *_parts("e2e-rest", 3),
    *_parts("mutants", 8),
    # Storms on each kind of store, within the limit; the nightly ones are longer.
    *_parts("storms", 3, "KILLS=100"),
    *_parts("e2e-release", 2),
)


def slice_of(commit: str) -> int:
    """The number, from 1, of the slice that a commit gets."""
    return int(commit, 16) % len(SLICES) + 1


def run(number: int) -> int:
    """Run a slice and return its exit code, 1 when it took too long. Says which it is, twice."""
    chosen = SLICES[number - 1]
    title = f"slice {number} of {len(SLICES)}: {chosen}"
    print(title, flush=True)
    # Where it is ignored, as in the background of a shell, what is started would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(chosen.command(), start_new_session=True)
    try:
        code = process.wait(SECONDS_MAX)
    except subprocess.TimeoutExpired:
        _stop(process)
        print(f"{title}: stopped after {SECONDS_MAX:.0f} s", file=sys.stderr)
        return 1
    print(f"{title}: {'passed' if code == 0 else f'ended with {code}'}", flush=True)
    return code


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print all slices")
    parser.add_argument("--take", type=int, choices=range(1, len(SLICES) + 1), metavar="NUMBER")
    asked = parser.parse_args()
    if asked.list:
        for number, candidate in enumerate(SLICES, start=1):
            print(f"{number:3d}  {candidate}")
        return 0
    return run(asked.take or slice_of(_head()))


def _stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(_SECONDS_TO_REPORT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _head() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
