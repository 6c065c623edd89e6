"""Taking the starting of processes and programs from this process for good, with Linux's seccomp.

A copy that a process makes of itself is known to nobody: it would outlive the end of its call, and
its memory would be counted nowhere. Threads continue as before.

Source: linux/seccomp.h, linux/filter.h, linux/audit.h, and the numbers of system calls in
asm/unistd_64.h and asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _FLAGS_AT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_CLONE_THREAD = 0x10000
_CLONE3 = 435
_OTHER_NUMBERS = 0x40000000
"""From here on the numbers of x32, which the kernel takes as well."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """Its number for the kernel, and its numbers of system calls: `clone`, and those that are
    always refused: fork, vfork, execve, execveat, as far as there are such."""

    audit: int
    clone: int
    refused: tuple[int, ...]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 56, (57, 58, 59, 322)),
    "aarch64": _Machine(0xC00000B7, 220, (221, 281)),
}


def give_up_programs() -> bool:
    """Give it up; whether this machine is one whose system calls are known here, and its kernel has
    filters. Needs PR_SET_NO_NEW_PRIVS. Raises OSError."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    code = _filter(machine)
    lines = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(lines))
    )
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0) != 0:
        number = ctypes.get_errno()
        if number == errno.EINVAL:
            return False
        raise OSError(number, os.strerror(number))
    return True


def _filter(machine: _Machine) -> bytes:
    refuse = (_RETURN, 0, 0, _FAIL | errno.EPERM)
    # Its flags are behind a pointer: the C library makes its threads with clone then.
    unknown = (_RETURN, 0, 0, _FAIL | errno.ENOSYS)
    lines = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, machine.audit),
        refuse,
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _OTHER_NUMBERS),
        refuse,
        (_EQUAL, 0, 1, _CLONE3),
        unknown,
    ]
    for number in machine.refused:
        lines += [(_EQUAL, 0, 1, number), refuse]
    lines += [
        (_EQUAL, 0, 3, machine.clone),
        (_LOAD, 0, 0, _FLAGS_AT),
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
