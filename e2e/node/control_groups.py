"""The control groups of a node: which processes belong to it, and proof that none are left.

A process cannot leave a control group on its own, so the members of the node's groups are exactly
the processes that the node started, even those whose parents have ended.

- Every hierarchy that is mounted (one with version 2, a dozen with version 1) gets a folder named
  after the node. The kubelet puts the pods' groups below it.
- The daemons are in a separate group next to the pods', in one hierarchy: in version 2 a group with
  processes cannot delegate controllers to its children.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CPU_SHARES = 4096
_END_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The groups called `name` directly below every hierarchy's root."""

    name: str

    def make(self) -> None:
        for root in _hierarchies():
            (root / self.name).mkdir(exist_ok=True)
        self._daemons().mkdir(exist_ok=True)
        for root in _hierarchies():
            _weigh(root / self.name)
            _hand_down_controllers(root)
            _hand_down_controllers(root / self.name)

    def join(self) -> None:
        """Make the calling process, and all it starts, a daemon of the node."""
        (self._daemons() / "cgroup.procs").write_text("0")

    def daemons(self) -> set[int]:
        return _processes(self._daemons())

    def members(self) -> set[int]:
        """Everything that runs on the node, its pods' containers included."""
        return {pid for group in self._groups() for pid in _processes(group)}

    def exists(self) -> bool:
        return any((root / self.name).exists() for root in _hierarchies())

    def end(self) -> None:
        """Kill every member and remove the groups. Raises TimeoutError when one stays."""
        deadline_s = time.monotonic() + _END_TIMEOUT_S
        while members := self.members():
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _wait(deadline_s, f"processes of {self.name} that outlive SIGKILL: {sorted(members)}")
        while groups := list(self._groups()):
            for group in groups:
                with suppress(OSError):
                    group.rmdir()
            if self.exists():
                _wait(deadline_s, f"control groups that cannot be removed: {groups}")

    def _daemons(self) -> Path:
        return _hierarchy_of_processes() / self.name / "daemons"

    def _groups(self) -> Iterator[Path]:
        """All groups, each before the one it is in."""
        for root in _hierarchies():
            for folder, _, _ in os.walk(root / self.name, topdown=False):
                yield Path(folder)


def _weigh(group: Path) -> None:
    """Version 1: a group competes with the machine's processes like one process; a node is many."""
    shares = group / "cpu.shares"
    if shares.exists():
        shares.write_text(str(_CPU_SHARES))


def _hand_down_controllers(group: Path) -> None:
    """Version 2: delegate the group's controllers to its children."""
    switch = group / "cgroup.subtree_control"
    if not switch.exists():
        return
    for controller in (group / "cgroup.controllers").read_text().split():
        with suppress(OSError):
            switch.write_text(f"+{controller}")


def _wait(deadline_s: float, what: str) -> None:
    if time.monotonic() > deadline_s:
        raise TimeoutError(what)
    time.sleep(0.1)


def _processes(group: Path) -> set[int]:
    try:
        return {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    except OSError:
        return set()


def _hierarchies() -> list[Path]:
    """Where a hierarchy is mounted, once each."""
    return [path for path, _, _ in _mounts()]


def _hierarchy_of_processes() -> Path:
    """The hierarchy in which the daemons are kept together."""
    by_controller = {controller: path for path, _, options in _mounts() for controller in options}
    found = by_controller.get("pids") or next(
        (path for path, kind, _ in _mounts() if kind == "cgroup2"), None
    )
    if found is None:
        raise RuntimeError("neither version 2 of control groups nor a `pids` hierarchy is mounted")
    return found


def _mounts() -> list[tuple[Path, str, list[str]]]:
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [
        (Path(mounted), kind, options.split(","))
        for _, mounted, kind, options, *_ in lines
        if kind in {"cgroup", "cgroup2"}
    ]
