"""What a reading process gives up before its first call."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from tideline_operator.reading.landlock import give_up_files_and_signals
from tideline_operator.reading.no_programs import give_up_programs

_FILES_MAX = 1024
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_SIGKILL = 9
_NOTHING = "/dev/null"


def confine(control: int, memory_bytes: int | None, *, writes_files: bool) -> None:
    """Keep no file but standard error and `control`, and `memory_bytes` beyond the memory that is
    used already. The process ends with its parent, leaves no core, gains no rights, and others of
    the same user cannot look into it. Unless it `writes_files`, those of local tables, it changes
    no file and signals no other process, where the kernel can see to that, and starts no
    program and no process. Its environment is the supervisor's, see starting.py."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A terminal sends it to all: the supervisor ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _close_files(control)
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(resource.RLIMIT_NOFILE, _FILES_MAX)
    if not writes_files:
        give_up_files_and_signals()
        give_up_programs()
    if memory_bytes is not None:
        _limit(resource.RLIMIT_DATA, _data_bytes() + memory_bytes)


def _close_files(control: int) -> None:
    null = os.open(_NOTHING, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor != control:
            with suppress(OSError):
                os.close(descriptor)


def _limit(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(kind, (limit, limit))


def _data_bytes() -> int:
    """Private writable memory so far, as RLIMIT_DATA counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) is refused")
