"""How stores of any kind refuse: there is no such bucket, or not for these credentials."""

from __future__ import annotations

from tideline.errors import ConfigError, StorageUnavailableError


class MissingBucketError(ConfigError):
    """The bucket does not exist."""


class AccessDeniedError(StorageUnavailableError):
    """The store answered, and does not let these credentials do it."""

    kind = StorageUnavailableError.kind


class ObjectKeptError(AccessDeniedError):
    """The store does not delete an object: a lock, a retention rule or a policy keeps it."""
