"""Errors, grouped by what the caller can do about them.

Every error names what it concerns: table, instant, path and the offending value, whichever apply.
Outcomes that code inside the engine branches on (a lost conditional write, a conflict) are return
values instead; these classes are for what ends an operation.

The texts of an error are masked when it is made, and once more when it is printed: a server may
repeat a secret that it was sent (`tideline.secret_values`).
"""

from __future__ import annotations

from typing import ClassVar

from tideline.secret_values import masked


class TidelineError(Exception):
    """Base of all errors Tideline raises on purpose.

    `exit_code` is what the command line returns: 1 the table or data is at fault, 2 usage,
    3 conflict (safe to retry), 4 storage unreachable (safe to retry), 5 outcome unknown (look
    before repeating). `kind` is its name in JSON documents, conditions and events: `ConflictError`.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "TidelineError"

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__dict__.get("kind", cls.__name__.removesuffix("Error"))

    def __init__(
        self,
        message: str,
        *,
        table: object = None,
        instant: object = None,
        path: object = None,
        value: object = None,
    ) -> None:
        self.message = masked(message)
        self.table = _masked(table)
        self.instant = _masked(instant)
        self.path = _masked(path)
        self.value = _masked(value)
        super().__init__(self.message)

    def __str__(self) -> str:
        named = (
            ("table", self.table),
            ("instant", self.instant),
            ("path", self.path),
            ("value", self.value),
        )
        context = ", ".join(f"{name}={item}" for name, item in named if item is not None)
        return masked(f"{self.message} [{context}]" if context else self.message)


class ConfigError(TidelineError):
    """The request or its configuration is wrong: correct it and call again."""

    exit_code = 2
    kind = "ConfigError"


class TableExistsError(ConfigError):
    """A table is where one was to be created: open it, or choose another location."""


class InvalidDataError(TidelineError):
    """Rows or source files are at fault: correct the data. The table is unchanged."""


class UnsupportedTableError(TidelineError):
    """The table is sound but uses something Tideline refuses by name rather than guess."""


class CorruptTableError(TidelineError):
    """The table's own files contradict each other or cannot be read: repair it first."""


class ObjectNotFoundError(TidelineError):
    """A named object does not exist in the store."""


class TableNotFoundError(ObjectNotFoundError):
    """There is no table here: create it, or correct the location or name."""


class ConflictError(TidelineError):
    """Another writer got there first. Nothing of this write is visible; it is safe to retry."""

    exit_code = 3


class StorageUnavailableError(TidelineError):
    """The store could not be reached, refused us or timed out.

    Nothing of this operation is visible, so it is safe to retry.
    """

    exit_code = 4


class UnknownOutcomeError(TidelineError):
    """The store went away while a change became visible: it may be, or may yet become so.

    Do not simply repeat the operation. The message names the instant or snapshot and the command
    that finds out; a write that was given a token may be repeated with the same token.
    """

    exit_code = 5


class FailedAfterCommitError(TidelineError):
    """The write is committed; a table service that was to follow it failed.

    Do not repeat the write; run the service again.
    """


def error_kind(error: BaseException) -> str:
    """The `kind` of an error, of one that is not ours the name of its class."""
    return error.kind if isinstance(error, TidelineError) else type(error).__name__


def _masked(named: object) -> object:
    """Texts masked; what is no text is masked with the whole error."""
    return masked(named) if isinstance(named, str) else named
