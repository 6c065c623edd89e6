"""Everything that proves Tideline, run in one go, and one table of how it went.

    python -m tideline.testing.verify                 all parts, in order
    python -m tideline.testing.verify slow e2e        these parts
    python -m tideline.testing.verify --list          what there is

1. The README's two commands run as a stranger runs them: a clone of HEAD, nothing next to it, an
   empty home. Caches (`XDG_CACHE_HOME`, Go's, Maven's) stay this user's unless `--empty-caches`,
   which fetches and compiles everything again and takes an hour longer.
2. Each other part is a `make` target in this working tree. A part that fails stops none after it.
3. The table counts what each part's last summary line says. The exit code is 1 when a part failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COUNTED = ("passed", "failed", "skipped")
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|caught|survived|unproven)\b")
_COUNTED_AS = {
    "error": "failed",
    "errors": "failed",
    "caught": "passed",
    "survived": "failed",
    "unproven": "failed",
}
# What pip, Go and Maven keep, by the variable that says where, below the home.
_CACHES = {
    "XDG_CACHE_HOME": ".cache",
    "GOPATH": "go",
    "GOENV": ".config/go/env",
    "MAVEN_ARGS": "-Dmaven.repo.local={home}/.m2/repository",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the table: what it proves, and the command, run in a clone or here."""

    name: str
    proves: str
    command: tuple[str, ...]
    in_clone: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a part went; `counts` by the words of `COUNTED`, empty for what counts no tests."""

    part: Part
    exit_code: int
    counts: Mapping[str, int]
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0 and not self.counts.get("failed")


PARTS = (
    Part("run", "make run on a bare clone, in an empty home", ("make", "run"), in_clone=True),
    Part("test", "make test on a bare clone, in an empty home", ("make", "test"), in_clone=True),
    Part("rest", "the same claims on what takes longer to start", ("make", "rest")),
    Part("foreign", "tables of other makers (../shared/fixtures)", ("make", "foreign")),
    Part("slow", "long conversations, Sparks of their own", ("make", "slow")),
    Part("e2e", "a real Kubernetes, everything killed", ("make", "e2e")),
    Part("release", "a release made twice, pushed, verified, installed", ("make", "e2e-release")),
    Part("mutants", "planted faults, none survives", ("make", "mutants")),
    Part("storms", "hundreds of kills, nothing lost or doubled", ("make", "storms")),
    Part("histories", "random tables, of Hudi's, published and followed", ("make", "histories")),
    Part("walks", "random edits and failures, every status true", ("make", "walks")),
)


def counts_in(line: str) -> dict[str, int]:
    """What a summary line counts, `3 failed, 10 passed, 1 error in 2 s`; empty for other lines.

    A planted fault that a test caught has passed.
    """
    found: dict[str, int] = {}
    for number, word in _COUNT.findall(line):
        name = _COUNTED_AS.get(word, word)
        found[name] = found.get(name, 0) + int(number)
    return found


def run_part(part: Part, folder: Path, environment: Mapping[str, str]) -> Outcome:
    """Run it, show what it prints, count what its last summary line says."""
    print(f"\n=== {part.name}: {part.proves} ===", flush=True)
    started, counts = time.monotonic(), dict[str, int]()
    with subprocess.Popen(
        part.command,
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            counts = counts_in(line) or counts
    return Outcome(part, process.returncode, counts, time.monotonic() - started)


def table(outcomes: Iterable[Outcome]) -> str:
    """One line for each part, and one for all."""
    rows = list(outcomes)
    lines = [_line("part", *COUNTED, "duration", "outcome"), "-" * 66]
    for row in rows:
        counted = [str(row.counts.get(name, 0)) if row.counts else "" for name in COUNTED]
        verdict = "passed" if row.is_good else f"FAILED (exit code {row.exit_code})"
        lines.append(_line(row.part.name, *counted, _duration(row.seconds), verdict))
    totals = [str(sum(row.counts.get(name, 0) for row in rows)) for name in COUNTED]
    seconds = sum(row.seconds for row in rows)
    good = all(row.is_good for row in rows)
    lines.append("-" * 66)
    lines.append(_line("all", *totals, _duration(seconds), "passed" if good else "FAILED"))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    name, *counted, duration, verdict = cells
    return f"{name:10}" + "".join(f"{cell:>10}" for cell in counted) + f"{duration:>12}  {verdict}"


def _duration(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def bare_clone(*, empty_caches: bool) -> Iterator[tuple[Path, dict[str, str]]]:
    """A clone of HEAD with nothing next to it, and an environment whose home is empty."""
    root = Path(_output("git", "rev-parse", "--show-toplevel"))
    with tempfile.TemporaryDirectory(prefix="tideline-verify-") as temporary:
        clone, home = Path(temporary) / "work" / "tideline", Path(temporary) / "home"
        home.mkdir()
        clone.parent.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(root), str(clone)], check=True)
        commit = _output("git", "rev-parse", "HEAD")
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=clone, check=True)
        environment = {**os.environ, "HOME": str(home)}
        for name in ("CI", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
        if not empty_caches:
            environment |= _caches_of(Path.home(), environment)
        yield clone, environment


def _caches_of(home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    caches = {}
    for name, where in _CACHES.items():
        path = where.format(home=home) if "{home}" in where else str(home / where)
        caches[name] = environment.get(name, path)
    return caches


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def verify(parts: Sequence[Part], *, empty_caches: bool) -> list[Outcome]:
    """Run the parts in order."""
    outcomes = []
    with bare_clone(empty_caches=empty_caches) as (clone, stranger):
        for part in parts:
            folder, environment = (clone, stranger) if part.in_clone else (Path.cwd(), os.environ)
            outcomes.append(run_part(part, folder, environment))
    return outcomes


def main() -> int:
    """Run what the command line asks for and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="all unless named")
    parser.add_argument("--list", action="store_true", help="print the parts")
    parser.add_argument("--empty-caches", action="store_true", help="fetch and compile all again")
    asked = parser.parse_args()
    known = {part.name: part for part in PARTS}
    if asked.list:
        for part in PARTS:
            print(f"{part.name:10}{part.proves}")
        return 0
    unknown = sorted(set(asked.parts) - set(known))
    if unknown:
        parser.error(f"no part {unknown[0]}; there are {', '.join(known)}")
    chosen = [part for part in PARTS if not asked.parts or part.name in asked.parts]
    outcomes = verify(chosen, empty_caches=asked.empty_caches)
    print(f"\n{table(outcomes)}", flush=True)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
