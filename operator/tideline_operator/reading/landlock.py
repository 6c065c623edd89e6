"""Taking rights from this process for good with Linux's Landlock, where the kernel has it.

A process that gave them up changes no file, makes none (nor a socket in place of another), starts
no program, and sends no signal to processes that are not its own. All containers of one user can do
that to each other otherwise. Reading files stays: code is loaded when it is needed.

Source: linux/landlock.h, and "Landlock: unprivileged access control" of the kernel's documentation.
"""

from __future__ import annotations

import ctypes
import os
import struct

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION_ONLY = 1
_EXECUTE, _WRITE_FILE = 1 << 0, 1 << 1
_REMOVE_AND_MAKE = 0b1_1111_1111 << 4
"""Removing files and folders, making files, folders, sockets, pipes, devices and links."""
_TRUNCATE, _TRUNCATE_SINCE = 1 << 14, 3
_NET_SINCE, _SCOPED_SINCE = 4, 6
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1


def landlock_version() -> int:
    """What the kernel knows of it; 0 for nothing."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, _VERSION_ONLY))


def give_up_files_and_signals() -> bool:
    """Give the rights up; whether the kernel could do that. Needs PR_SET_NO_NEW_PRIVS."""
    version = landlock_version()
    if version == 0:
        return False
    files = _EXECUTE | _WRITE_FILE | _REMOVE_AND_MAKE
    if version >= _TRUNCATE_SINCE:
        files |= _TRUNCATE
    rights = struct.pack("=Q", files)
    if version >= _NET_SINCE:
        rights += struct.pack("=Q", 0)
    if version >= _SCOPED_SINCE:
        rights += struct.pack("=Q", _ABSTRACT_SOCKETS | _SIGNALS)
    ruleset = _checked(_syscall(_CREATE_RULESET, rights, len(rights), 0))
    try:
        _checked(_syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def _syscall(number: int, *arguments: object) -> int:
    given = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *given))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
