"""pytest plugin: how often each class of fault came in a run, and failure when one never did.

The counts of all workers are added up and printed. A run that has tests of every file in
`tests/simulation` fails when a class that simulations let happen never came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tideline.testing.fault_counts import fired, missing_faults

SIMULATIONS = Path(__file__).resolve().parents[2] / "tests" / "simulation"
_OUTPUT_KEY = "tideline_faults"


class FaultReport:
    """The counts of a run; one for each process of it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.has_all = False

    @property
    def is_lacking(self) -> bool:
        """Whether a class should have come and did not."""
        return self.has_all and bool(missing_faults(self.counts))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note whether every simulation is in the run."""
        if not session.config.option.collectonly:
            self.has_all = has_all_simulations(item.path for item in session.items)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker hands its counts over; the process that reports checks them."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT_KEY] = {"counts": dict(fired), "has_all": self.has_all}
            return
        self.counts.update(fired)
        if self.is_lacking and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take a worker's counts in."""
        output = getattr(node, "workeroutput", {}).get(_OUTPUT_KEY)
        if output is not None:
            self.has_all = self.has_all or output["has_all"]
            self.counts.update(output["counts"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """One line of counts, and another of what is missing."""
        if not self.counts:
            return
        listed = ", ".join(f"{name}: {number:,}" for name, number in sorted(self.counts.items()))
        terminalreporter.write_line(f"faults injected: {listed}")
        if self.is_lacking:
            names = ", ".join(map(str, missing_faults(self.counts)))
            terminalreporter.write_line(f"FAILED: faults that never came: {names}", red=True)


def has_all_simulations(files: Iterable[Path]) -> bool:
    """Whether tests of every file in `tests/simulation` are among these."""
    return set(files).issuperset(SIMULATIONS.glob("test_*.py"))


def pytest_configure(config: pytest.Config) -> None:
    """Report the faults of every run."""
    config.pluginmanager.register(FaultReport(), "tideline-fault-report")
