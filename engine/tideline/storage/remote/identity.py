"""Whose credentials sign requests, in general: those of the environment, or those of a connection.

Which of the environment is a matter of each kind of store.
"""

from __future__ import annotations

import os

from tideline.errors import ConfigError

_OFF = ("", "0", "false")
_only_explicit = False


def is_switched_on(name: str) -> bool:
    """Whether a variable of the environment is set to anything but off."""
    return os.environ.get(name, "").lower() not in _OFF


class IdentityError(Exception):
    """No credentials were given; the words hold no secret."""


def check_implicit_identity() -> None:
    """Raises ConfigError in a process that has no identity of its own."""
    if _only_explicit:
        raise ConfigError(
            "this process has no identity of its own at stores: open the store with the "
            "connection of its LakeStore"
        )


def allow_only_explicit_identities(only: bool = True) -> None:
    """From now on no store is opened with what the environment gives unless a connection says so:
    in a process that reads the stores of others, code that forgets the connection fails."""
    global _only_explicit
    _only_explicit = only
