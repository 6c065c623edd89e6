"""An error in looking at something, as the planner needs it."""

from __future__ import annotations

from tideline.errors import StorageUnavailableError, TidelineError
from tideline.storage.refusals import MissingBucketError
from tideline_operator.decide.observed import Problem


def problem_of(error: TidelineError) -> Problem:
    """The problem that the error is; what is transient is looked at again soon."""
    return Problem(
        reason=error.kind,
        message=str(error),
        exit_code=error.exit_code,
        is_transient=isinstance(error, StorageUnavailableError | MissingBucketError),
    )
