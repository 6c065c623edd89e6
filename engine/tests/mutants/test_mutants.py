"""The planted faults are still where they were, and a fault that no test notices is reported.

`make mutants` plants them; here only their places are looked at, which costs nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tideline
from tideline.testing.mutants.fault import Fault
from tideline.testing.mutants.run import Outcome, Trial, try_faults
from tideline.testing.mutants.table import FAULTS

ROOT = Path(tideline.__file__).resolve().parents[2]
PLACES_MIN = 30
FAULTS_MIN = 40


def test_there_are_enough_faults_in_enough_places() -> None:
    assert len(FAULTS) >= FAULTS_MIN
    assert len({fault.path for fault in FAULTS}) >= PLACES_MIN
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_its_place_and_its_tests(fault: Fault) -> None:
    for place in fault.places:
        source = (ROOT / place.path).read_text("utf-8")
        compile(place.planted_in(source), place.path, "exec")
    files = [name.split("::")[0] for name in fault.tests if "/" in name]
    assert files
    for name in files:
        assert (ROOT / name).is_file()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A product of one function and its one test."""
    product = tmp_path / "engine" / "tideline"
    tests = tmp_path / "engine" / "tests"
    for folder in (product, tests, tmp_path / "operator"):
        folder.mkdir(parents=True)
    (product / "adding.py").write_text("def add(a, b):\n    return a + b\n\n\nUNTESTED = 1\n")
    (tests / "test_adding.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "sys.path.insert(0, str(Path(__file__).parents[1] / 'tideline'))\n"
        "from adding import add\n\n\ndef test_it_adds():\n    assert add(2, 2) == 4\n"
    )
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    return tmp_path


def fault_in_adding(old: str, new: str) -> Fault:
    tests = ("engine/tests/test_adding.py",)
    return Fault("a fault", "engine/tideline/adding.py", old, new, tests)


@pytest.mark.slow
def test_caught_survived_and_unproven_are_distinguished(project: Path) -> None:
    faults = (
        fault_in_adding("a + b", "a - b"),
        fault_in_adding("UNTESTED = 1", "UNTESTED = 2"),
        fault_in_adding("a * b", "a - b"),
        fault_in_adding("def add(a, b):", "def add(a, b:"),
    )
    reported: list[Trial] = []
    verdicts = try_faults(faults, project, workers=1, report=reported.append)
    assert [verdict.outcome for verdict in verdicts] == [
        Outcome.CAUGHT,
        Outcome.SURVIVED,
        Outcome.UNPROVEN,
        Outcome.UNPROVEN,
    ]
    assert verdicts[0].by == "engine/tests/test_adding.py::test_it_adds"
    assert "0 times, not once" in verdicts[2].by
    assert len(reported) == len(faults)
    assert "a + b" in (project / "engine/tideline/adding.py").read_text()


def test_tests_that_fail_without_a_fault_prove_nothing(project: Path) -> None:
    (project / "engine/tests/test_adding.py").write_text("def test_it_adds():\n    assert False\n")
    with pytest.raises(RuntimeError, match="fails without a fault: engine/tests/test_adding"):
        try_faults((fault_in_adding("a + b", "a - b"),), project, workers=1)
    assert "a + b" in (project / "engine/tideline/adding.py").read_text()
