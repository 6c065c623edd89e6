"""A run in which a class of fault never came says so, and fails; part of a run does not."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tideline.testing.fault_counts import FaultClass, missing_faults
from tideline.testing.fault_report import SIMULATIONS, FaultReport, has_all_simulations

PROGRAM = """
import pytest
from tideline.testing import fault_report
from tideline.testing.fault_counts import FaultClass, count_fault

fault_report.SIMULATIONS = fault_report.Path(__file__).parent

@pytest.mark.parametrize("fault", list(FaultClass)[{first}:])
def test_a_fault(fault):
    count_fault(fault)
"""


def run_program(folder: Path, first: int, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_program.py").write_text(PROGRAM.format(first=first))
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugin = ("-p", "tideline.testing.fault_report", "-p", "no:cacheprovider", "-q")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options, "test_program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow_with("v9-workers")
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "workers"])
def test_a_class_that_never_came_fails_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run_program(tmp_path, 1, *options)
    assert done.returncode == 1, done.stdout
    first, *others = FaultClass
    assert f"FAILED: faults that never came: {first}\n" in done.stdout
    for fault in others:
        assert f"{fault}: 1" in done.stdout


def test_a_run_in_which_all_came_is_fine(tmp_path: Path) -> None:
    done = run_program(tmp_path, 0)
    assert done.returncode == 0, done.stdout
    assert "never came" not in done.stdout


def test_part_of_the_simulations_has_to_fire_nothing() -> None:
    files = sorted(SIMULATIONS.glob("test_*.py"))
    assert has_all_simulations(files)
    assert not has_all_simulations(files[1:])
    report = FaultReport()
    assert missing_faults(Counter()) == tuple(FaultClass)
    assert not report.is_lacking
