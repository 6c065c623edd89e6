"""Peak memory of a Python driver and its Python workers, from /proc while something runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE_INTERVAL_S = 0.05
# Java's command line names the module too, as one of Spark's settings.
WORKER_ARGUMENTS = [b"-m", b"tideline.spark.session.python_daemon"]


@dataclass(slots=True)
class Peaks:
    """The highest resident size of every Python process seen, in bytes, by process id."""

    bytes_by_pid: dict[int, int] = field(default_factory=dict)

    @property
    def highest_bytes(self) -> int:
        """The largest process' peak; 0 when none was seen."""
        return max(self.bytes_by_pid.values(), default=0)


@contextmanager
def watch_processes(root_pid: int) -> Iterator[Peaks]:
    """Sample a process and the workers below it until the block ends.

    The kernel keeps each process's own high-water mark (VmHWM), so a short spike between two
    samples is not missed as long as its process lives until the next one. The marks of those that
    live are reset here.
    """
    peaks = Peaks()
    for pid in _watched(root_pid):
        _forget_high_water(pid)
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_INTERVAL_S):
            for pid in _watched(root_pid):
                seen = _high_water_bytes(pid)
                peaks.bytes_by_pid[pid] = max(peaks.bytes_by_pid.get(pid, 0), seen)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield peaks
    finally:
        done.set()
        sampler.join()


def _watched(root_pid: int) -> list[int]:
    found = descendants(root_pid)
    return [root_pid] + [
        pid for pid in found if _read(pid, "cmdline").split(b"\0")[1:3] == WORKER_ARGUMENTS
    ]


def descendants(root_pid: int) -> list[int]:
    """The processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            stat = _read(int(entry.name), "stat")
            if stat:
                parent = int(stat.rsplit(b")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root_pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _high_water_bytes(pid: int) -> int:
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _forget_high_water(pid: int) -> None:
    with suppress(OSError):
        (Path("/proc") / str(pid) / "clear_refs").write_text("5")


def _read(pid: int, name: str) -> bytes:
    """A file of /proc; empty when the process has ended since."""
    try:
        return (Path("/proc") / str(pid) / name).read_bytes()
    except OSError:
        return b""
