"""Each file of a Hudi and of an Iceberg table in turn as a fifo, a device, a link, a terabyte, ...

Nothing waits, nothing takes memory, nothing outside of the table's folder is read, and what is
wrong is said with its path.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.cli.main import run
from tideline.testing.hostile_tables import (
    COMMANDS,
    KINDS,
    UNOPENED,
    Outcome,
    notices_reads,
    print_outcomes,
)

CANARY = "canary-of-the-environment"
PEAK_BYTES_MAX = 500 * 1024 * 1024
WAIT_S = 400.0


@dataclass(frozen=True)
class Outcomes:
    """Of all commands on all tables, and the memory that they took."""

    sound: dict[str, Outcome]
    hostile: tuple[Outcome, ...]
    peak_bytes: int


@pytest.fixture(scope="module", params=list(COMMANDS))
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("hostile")
    done = subprocess.run(
        [sys.executable, __file__, str(folder), request.param],
        env={**os.environ, "CANARY": CANARY},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, peak = done.stdout.splitlines()
    found = [Outcome(**json.loads(line)) for line in lines]
    sound = {outcome.command: outcome for outcome in found if not outcome.kind}
    return Outcomes(sound, tuple(outcome for outcome in found if outcome.kind), int(peak))


def test_every_file_is_everything_once(outcomes: Outcomes) -> None:
    files = {outcome.file for outcome in outcomes.hostile}
    assert len(files) > 8
    assert {(outcome.kind, outcome.file) for outcome in outcomes.hostile} == {
        (kind, file) for kind in KINDS for file in files
    }
    assert all(outcome.exit_code == 0 and not outcome.error for outcome in outcomes.sound.values())


def test_every_error_is_one_of_tidelines(outcomes: Outcomes) -> None:
    unexpected = [
        outcome for outcome in outcomes.hostile if "unexpected" in outcome.error + outcome.output
    ]
    assert unexpected == []
    assert {outcome.exit_code for outcome in outcomes.hostile} <= {0, 1, 4}


def test_memory_stays_small(outcomes: Outcomes) -> None:
    assert outcomes.peak_bytes < PEAK_BYTES_MAX


def test_nothing_outside_is_read_or_shown(outcomes: Outcomes, tmp_path: Path) -> None:
    shown = [outcome for outcome in outcomes.hostile if CANARY in outcome.output + outcome.error]
    assert shown == []
    if not notices_reads(tmp_path):
        pytest.skip("the file system does not tell when a file was read")
    # What no link leads to is read by nobody; what one leads to is not either.
    assert [outcome for outcome in outcomes.hostile if outcome.read_outside] == []


def test_what_is_never_opened_is_named(outcomes: Outcomes) -> None:
    """A command says which file it is, or does without."""
    named: dict[tuple[str, str], bool] = {}
    for outcome in outcomes.hostile:
        if outcome.kind not in UNOPENED:
            continue
        # The last part of a path: errors show it from the root of a store on, or in full.
        is_named = Path(outcome.file).name in outcome.error or (
            outcome.command == "check" and Path(outcome.file).name in outcome.output
        )
        assert is_named or outcome.exit_code == 0, outcome
        if not is_named:
            assert outcome.error == ""
        key = (outcome.kind, outcome.file)
        named[key] = named.get(key, False) or is_named
    assert [key for key, is_named in named.items() if not is_named] == []


if __name__ == "__main__":
    print_outcomes(run, Path(sys.argv[1]), sys.argv[2])
